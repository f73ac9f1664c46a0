package binlog

// Declared is what information_schema says of a column, as far as decoding its values takes it.
type Declared struct {
	Name     string
	Charset  string // "" for what is no text
	Unsigned bool
	Members  []string // of ENUM and SET
	Digits   int      // after the point: of a time, and of DOUBLE(M,D)
	Rounded  bool     // DOUBLE(M,D): the server shows no more digits than these
	Hires    bool     // a time with such digits, in the format of MariaDB 5.3
	Special  Kind     // a type that the binlog shows as BINARY: KindUUID, KindInet4, KindInet6; else 0
}
