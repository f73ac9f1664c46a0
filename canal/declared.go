package canal

// declaredColumn is a column as information_schema has it now.
type declaredColumn struct {
	name      string
	dataType  string // int, varchar, …
	fullType  string // int(10) unsigned, …
	charset   string // "" for what is no text
	collation string // "" for what is no text
	nullable  bool
	unsigned  bool
	members   []string // of ENUM and SET
	special   kind     // a type that the binlog shows as BINARY: kindUUID, kindInet4, kindInet6; else 0
}
