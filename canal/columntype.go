package canal

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"replicator/canal/binlog"
)

// columnType is a column's type. It omits properties that don't affect values in the binlog, such as an INT's display
// width, or whether a DECIMAL is UNSIGNED.
type columnType struct {
	name     string   // as in information_schema: int, varchar, …
	args     []string // the arguments: 10 and 2 for DECIMAL(10, 2), the members for an ENUM
	unsigned bool
	oldTime  bool // the type is a time with fractional digits in the format of MariaDB 5.3
}

// String returns the type as information_schema shows it.
func (t columnType) String() string {
	s := t.name
	if len(t.args) > 0 {
		args := t.args
		if t.hasMembers() {
			args = nil
			for _, m := range t.args {
				args = append(args, "'"+strings.ReplaceAll(m, "'", "''")+"'")
			}
		}
		s += "(" + strings.Join(args, ",") + ")"
	}
	if t.unsigned {
		s += " unsigned"
	}
	if t.oldTime {
		s += " /* mariadb-5.3 */"
	}
	return s
}

func (t columnType) hasMembers() bool { return t.name == "enum" || t.name == "set" }

// isText reports whether values have a character set.
func (t columnType) isText() bool {
	switch t.name {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return true
	}
	return false
}

// typeNames maps other names of types to the names that the servers show.
var typeNames = map[string]string{
	"int1": "tinyint", "bool": "tinyint", "boolean": "tinyint", "int2": "smallint", "int3": "mediumint",
	"middleint": "mediumint", "int4": "int", "integer": "int", "int8": "bigint", "serial": "bigint",
	"dec": "decimal", "numeric": "decimal", "fixed": "decimal", "number": "decimal",
	"float4": "float", "float8": "double", "real": "double",
	"character": "char", "nchar": "char", "nvarchar": "varchar", "varcharacter": "varchar",
	"geometrycollection": "geomcollection",
}

var plainTypes = []string{
	"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year", "date", "time",
	"datetime", "timestamp", "char", "varchar", "binary", "varbinary", "tinytext", "text", "mediumtext", "longtext",
	"tinyblob", "blob", "mediumblob", "longblob", "enum", "set", "json", "geometry", "point", "linestring", "polygon",
	"multipoint", "multilinestring", "multipolygon", "geomcollection", "vector", "uuid", "inet4", "inet6",
}

type typeReader struct {
	words []word
	i     int
}

func (r *typeReader) at() word {
	if r.i < len(r.words) {
		return r.words[r.i]
	}
	return word{}
}

func (r *typeReader) skip(keyword string) bool {
	if r.at().is(keyword) {
		r.i++
		return true
	}
	return false
}

// read reads the type that comes next. ok is false if the type is unknown. national means that the type's name implies
// the character set utf8.
func (r *typeReader) read() (t columnType, national, ok bool) {
	if r.at().quoted {
		return t, false, false
	}
	national = r.skip("NATIONAL") || r.at().is("NCHAR") || r.at().is("NVARCHAR")
	written := strings.ToLower(r.at().text)
	r.i++
	t.name = cmp.Or(typeNames[written], written)
	switch {
	case written == "long" && (r.skip("VARBINARY") || r.skip("BYTE")):
		t.name = "mediumblob"
	case written == "long":
		_ = r.skip("VARCHAR") || r.skip("CHAR") && r.skip("VARYING") || r.skip("VARCHARACTER")
		t.name = "mediumtext"
	case written == "double":
		r.skip("PRECISION")
	case t.name == "char" && (r.skip("VARYING") || national && (r.skip("VARCHAR") || r.skip("VARCHARACTER"))):
		t.name = "varchar"
	}
	if !slices.Contains(plainTypes, t.name) {
		return t, national, false
	}
	t.unsigned = written == "serial"
	args, ok := r.arguments()
	if !ok {
		return t, national, false
	}
	return t, national, t.shape(args)
}

func (r *typeReader) arguments() (args []string, ok bool) {
	if !r.at().is("(") {
		return nil, true
	}
	for r.i++; ; r.i++ {
		w := r.at()
		if w.text == "" && !w.literal || w.quoted && !w.literal {
			return nil, false
		}
		args = append(args, w.text)
		r.i++
		switch {
		case r.at().is(")"):
			r.i++
			return args, true
		case !r.at().is(","):
			return nil, false
		}
	}
}

// shape sets args to the arguments that affect values, and fills in omitted ones. It returns false if the type can't
// have these arguments.
func (t *columnType) shape(args []string) bool {
	one := func(otherwise string) {
		if t.args = args; len(args) == 0 && otherwise != "" {
			t.args = []string{otherwise}
		}
	}
	switch t.name {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year", "date", "json":
		return true
	case "decimal":
		t.args = append(slices.Clone(args), []string{"10", "0"}[min(len(args), 2):]...)
		if t.args[0] == "0" {
			t.args[0] = "10"
		}
		return len(args) <= 2
	case "float":
		if len(args) == 1 {
			if bits, err := strconv.Atoi(args[0]); err != nil || bits > 24 {
				t.name = "double"
			}
		}
		return true
	case "double":
		if len(args) == 2 {
			t.args = args
		}
		return true
	case "bit", "char", "binary":
		one("1")
		return len(args) <= 1
	case "time", "datetime", "timestamp":
		if one(""); len(args) == 1 && args[0] == "0" {
			t.args = nil
		}
		return len(args) <= 1
	case "varchar", "varbinary":
		t.args = args
		return len(args) == 1
	case "enum", "set":
		for _, m := range args { // the servers remove trailing spaces of ENUM and SET members
			t.args = append(t.args, strings.TrimRight(m, " "))
		}
		return len(args) > 0
	case "text", "blob", "vector":
		t.args = args
		return len(args) <= 1
	}
	return len(args) == 0
}

// maxBytes holds the most bytes that a character may need, for character sets that use more than one byte.
var maxBytes = map[string]int{
	"utf8mb4": 4, "utf8mb3": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "big5": 2, "gbk": 2, "gb2312": 2,
	"gb18030": 4, "sjis": 2, "cp932": 2, "ujis": 3, "eucjpms": 3, "euckr": 2,
}

func charsetName(name string) string {
	if name = strings.ToLower(name); name == "utf8" {
		return "utf8mb3"
	}
	return name
}

// complete adapts the type to the character set. A text type with character set binary becomes a binary type. A TEXT(n)
// becomes the smallest TEXT type with room for n characters.
func (t *columnType) complete(charset string) {
	if charset == "binary" {
		switch t.name {
		case "char":
			t.name = "binary"
		case "varchar":
			t.name = "varbinary"
		case "tinytext", "text", "mediumtext", "longtext":
			t.name = strings.Replace(t.name, "text", "blob", 1)
		}
	}
	if t.name != "text" && t.name != "blob" || len(t.args) == 0 {
		return
	}
	width := 1
	if t.name == "text" {
		width = max(maxBytes[charset], 1)
	}
	n, _ := strconv.Atoi(t.args[0])
	t.args = nil
	switch n *= width; {
	case n == 0 || n > 255 && n <= 1<<16-1:
	case n <= 255:
		t.name = "tiny" + t.name
	case n <= 1<<24-1:
		t.name = "medium" + t.name
	default:
		t.name = "long" + t.name
	}
}

// declaredType parses a type as information_schema shows it.
func declaredType(fullType string) (columnType, bool) {
	r := typeReader{words: tokenize([]byte(fullType), 0, withLiterals)}
	t, _, ok := r.read()
	for ; r.i < len(r.words); r.i++ {
		t.flag(r.at())
	}
	t.oldTime = strings.Contains(fullType, "mariadb-5.3") && len(t.args) > 0
	return t, ok
}

func (t *columnType) flag(w word) {
	switch t.name {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		t.unsigned = t.unsigned || w.is("UNSIGNED") || w.is("ZEROFILL")
	}
}

// fits reports whether a table map's column i can have the type. charset is the column's character set; "" if unknown.
// A property that the table map lacks counts as fitting.
func (t columnType) fits(m *binlog.TableMap, i int, charset string, sets binlog.Charsets) bool {
	if unsigned, said := m.Unsigned(i); said && isInteger(t.name) && unsigned != t.unsigned {
		return false
	}
	if set, said := m.Charset(i, sets); said && charset != "" && t.isText() && charsetName(set) != charset {
		return false
	}
	meta := m.Meta(i)
	number := func(n int) int {
		if n >= len(t.args) {
			return 0
		}
		value, _ := strconv.Atoi(t.args[n])
		return value
	}
	switch t.name {
	case "decimal":
		return meta == number(0)<<8|number(1)
	case "bit":
		return meta>>8*8+meta&0xff == number(0)
	case "time", "datetime", "timestamp":
		return !m.HasDigits(i) || meta == number(0)
	case "varchar", "varbinary":
		return m.IsPacked(i) || charset == "" && t.name == "varchar" || meta == number(0)*t.width(charset)
	case "char", "binary":
		return charset == "" && t.name == "char" || m.StringLength(i) == number(0)*t.width(charset)
	case "enum":
		return meta&0xff == 1 && len(t.args) < 256 || meta&0xff == 2 && len(t.args) >= 256
	case "tinytext", "tinyblob":
		return m.IsPacked(i) || meta == 1
	case "text", "blob":
		return m.IsPacked(i) || meta == 2
	case "mediumtext", "mediumblob":
		return m.IsPacked(i) || meta == 3
	case "longtext", "longblob":
		return m.IsPacked(i) || meta == 4
	}
	return true
}

func (t columnType) width(charset string) int {
	if !t.isText() {
		return 1
	}
	return max(maxBytes[charset], 1)
}

func isInteger(name string) bool {
	switch name {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return true
	}
	return false
}
