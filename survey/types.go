package survey

import (
	"strings"
)

// indexType is a property's column type in an index table, with room for what was not sampled. "" if there is none: for
// what is neither short nor of one kind.
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

// createdAs reports whether the column of an existing table is what the program makes of a type, and the type as it was
// said then: a text's length may have been another. What is said again must be the same, or it would define the view
// anew.
func (c *Column) createdAs(typ string) (string, bool) {
	name, _, _ := strings.Cut(strings.ToLower(typ), "(")
	switch {
	case name == "boolean":
		return typ, c.DataType == "tinyint"
	case name == "varchar" && c.DataType == name:
		return strings.ToUpper(c.Type), true
	case name == "bigint" || name == "bigint unsigned": // MariaDB shows a width
		return typ, c.DataType == "bigint" && strings.HasSuffix(name, "unsigned") == strings.HasSuffix(c.Type, "unsigned")
	}
	return typ, strings.EqualFold(strings.ReplaceAll(typ, " ", ""), strings.ReplaceAll(c.Type, " ", ""))
}

// holds reports whether an existing column takes what was seen of a property.
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
