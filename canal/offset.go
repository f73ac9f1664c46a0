package canal

// namedPlace begins the place of a scan that a person named.
const namedPlace = "from "

// Offset is the place of a scan that begins at an offset that a person names: with the rows whose first offset column has that
// value, or a higher one. Binary values are in hex.
func Offset(text string) string { return namedPlace + text }
