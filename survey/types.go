package survey

import (
	"fmt"
	"math/big"
	"strings"
)

// mostIndexed is what all columns of an index may take in InnoDB, in bytes.
const mostIndexed = 3072

// indexType is a property's column type in an index table, with room for what was not sampled. "" if there is none: for
// what is neither short nor of one kind.
func (p *property) indexType(room int64) string {
	if p.list != strings.HasSuffix(p.path, "[]") || strings.Count(p.path, "[]") > 1 || p.objects+p.lists+p.floats > 0 {
		return ""
	}
	typ, bytes := p.scalar()
	if bytes > room {
		return ""
	}
	return typ
}

// scalar is the type of a column for the property's values, and what they may take in an index; "" if there is none.
func (p *property) scalar() (typ string, bytes int64) {
	numbers := p.integers + p.decimals + p.floats
	switch {
	case p.lists+p.objects > 0:
		return "", 0
	case p.uuids > 0 && p.texts == p.sixteens && p.bytes+numbers+p.booleans == 0:
		return "BINARY(16)", 16
	case p.texts > 0 && p.bytes == 0:
		return p.varchar()
	case p.bytes > 0 && p.texts+numbers+p.booleans == 0:
		n := int64(64)
		for n < 2*int64(max(p.longest, 16)) {
			n *= 2
		}
		return fmt.Sprintf("VARBINARY(%d)", n), n
	case p.booleans > 0 && p.texts+p.uuids+p.bytes+numbers == 0:
		return "BOOLEAN", 1
	case numbers > 0 && p.texts+p.uuids+p.bytes+p.booleans == 0:
		return p.numeric(), 30
	}
	return "", 0
}

// varchar has room for texts twice as long as those that were seen.
func (p *property) varchar() (string, int64) {
	n := 2 * p.longest
	if strings.Contains(strings.ToLower(p.name), "email") && p.longest <= 254 {
		return "VARCHAR(254)", 4 * 254 // RFC 3696, with its errata
	}
	for _, size := range []int{64, 128, 255, 500} {
		if n <= size {
			return fmt.Sprintf("VARCHAR(%d)", size), int64(4 * size)
		}
	}
	return "TEXT", mostIndexed + 1
}

// numeric keeps every digit of integers and decimals, with room for more of them.
func (p *property) numeric() string {
	switch {
	case p.floats > 0:
		return "DOUBLE"
	case p.decimals > 0:
		scale := min(p.scale+2, 30)
		digits := p.digits
		if p.greatest != nil {
			digits = max(digits, len(p.greatest.Text(10)), len(new(big.Int).Abs(p.least).Text(10)))
		}
		return fmt.Sprintf("DECIMAL(%d,%d)", min(max(digits+10, 20)+scale, 65), scale)
	case p.least.IsInt64() && p.greatest.IsInt64():
		return "BIGINT"
	case p.least.Sign() >= 0 && p.greatest.IsUint64():
		return "BIGINT UNSIGNED"
	}
	return "DECIMAL(65,0)"
}

// rowType is a property's column type in a row; "" if there is none.
func (p *property) rowType() string {
	if p.lists+p.objects > 0 {
		return "JSON"
	}
	typ, bytes := p.scalar()
	if bytes > 4*255 { // a row's columns have 64 KiB together
		return "TEXT"
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
	typ, _ := p.scalar()
	switch {
	case c.DataType == "json":
		return true
	case strings.HasPrefix(typ, "VARCHAR"), typ == "TEXT":
		return c.Text && c.Length >= int64(p.longest)
	case typ == "BINARY(16)":
		return c.DataType == "binary" && c.Length == 16 || c.DataType == "uuid" || c.Text && c.Length >= 36
	case typ == "BOOLEAN", typ == "BIGINT":
		return c.integer() || c.Text
	case typ == "":
		return false
	}
	return strings.HasPrefix(strings.ToLower(typ), c.DataType) || c.Text
}
