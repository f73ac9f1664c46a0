package binlog

// Declared has the properties of a column in information_schema that are needed to decode it.
type Declared struct {
	Name     string
	Charset  string // "" if the column is not text
	Unsigned bool
	Members  []string
	Digits   int  // digits after the point, of a time or a DOUBLE(M,D)
	Rounded  bool // DOUBLE(M,D): the server shows only Digits digits after the point
	Hires    bool // a time with fractional digits, in the format of MariaDB 5.3
	Special  Kind // KindUUID, KindInet4 or KindInet6, which look like BINARY in the binlog; else 0
}
