package binlog

// Declared is what decoding a column needs of its entry in information_schema.
type Declared struct {
	Name     string
	Charset  string // "" if the column is no text
	Unsigned bool
	Members  []string // of ENUM and SET
	Digits   int      // digits after the point, of a time or a DOUBLE(M,D)
	Rounded  bool     // DOUBLE(M,D): the server shows only these digits
	Hires    bool     // a time with fractional digits, in the format of MariaDB 5.3
	Special  Kind     // KindUUID, KindInet4 or KindInet6, which look like BINARY in the binlog; else 0
}
