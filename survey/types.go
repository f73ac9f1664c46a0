package survey

import (
	"strings"
)

// indexType returns the column type for an index view of the property's values. It returns "" if they need more than
// `room` bytes, or are of several kinds.
func (p *property) indexType(room int64) string {
	if p.list != strings.HasSuffix(p.path, "[]") || strings.Count(p.path, "[]") > 1 || p.Objects+p.Lists+p.Floats > 0 {
		return ""
	}
	typ, bytes := p.Scalar(p.name)
	if bytes > room {
		return ""
	}
	return typ
}

// createdAs reports whether a table's column looks like one that the program created for a type. A VARCHAR may have any
// length. createdAs returns the type with the column's own length. The configuration must have this type: any other
// would change the view's definition.
func (c *Column) createdAs(typ string) (string, bool) {
	name, _, _ := strings.Cut(strings.ToLower(typ), "(")
	switch {
	case name == "boolean":
		return typ, c.DataType == "tinyint"
	case name == "varchar" && c.DataType == name:
		return strings.ToUpper(c.Type), true
	case name == "bigint" || name == "bigint unsigned": // MariaDB's type includes a display width, as in bigint(20)
		return typ, c.DataType == "bigint" && strings.HasSuffix(name, "unsigned") == strings.HasSuffix(c.Type, "unsigned")
	}
	return typ, strings.EqualFold(strings.ReplaceAll(typ, " ", ""), strings.ReplaceAll(c.Type, " ", ""))
}

// holds reports whether an existing column accepts the sampled values of a property.
func (c *Column) holds(p *property) bool {
	typ, _ := p.Scalar(p.name)
	switch {
	case c.DataType == "json":
		return true
	case strings.HasPrefix(typ, "VARCHAR"), strings.HasSuffix(typ, "TEXT"):
		return c.Text && c.Length >= int64(p.Longest)
	case typ == "BINARY(16)":
		return c.DataType == "binary" && c.Length == 16 || c.DataType == "uuid" || c.Text && c.Length >= 36
	case typ == "BOOLEAN", typ == "BIGINT":
		return c.integer() || c.Text
	case typ == "":
		return false
	}
	return strings.HasPrefix(strings.ToLower(typ), c.DataType) || c.Text
}
