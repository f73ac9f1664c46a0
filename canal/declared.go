package canal

// declared is what information_schema says of a column, as far as decoding its values takes it.
type declared struct {
	name     string
	charset  string // "" for what is no text
	unsigned bool
	members  []string // of ENUM and SET
	special  kind     // a type that the binlog shows as BINARY: kindUUID, kindInet4, kindInet6; else 0
}
