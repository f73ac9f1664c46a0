package binlog

// Declared is the part of a column's information_schema entry that decoding its values needs.
type Declared struct {
	Name     string
	Charset  string // "" for what is no text
	Unsigned bool
	Members  []string // of ENUM and SET
	Digits   int      // after the point: of a time, and of DOUBLE(M,D)
	Rounded  bool     // DOUBLE(M,D): the server shows only these digits
	Hires    bool     // a time with such digits, in the format of MariaDB 5.3
	Special  Kind     // a type that looks like BINARY in the binlog: KindUUID, KindInet4, KindInet6; else 0
}
