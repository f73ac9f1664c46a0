package mysql

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
	"replicator/internal/sqlname"
)

// role is the purpose of a column of a view's table. Its number is part of an origin (origin.go), so it must never
// change.
type role int

const (
	ofRow     role = iota // a field of a row, which may be long and NULL
	ofIndex               // a value that entities are found by; only the beginning of a long value is indexed
	ofKey                 // part of the entity's key, which the table indexes in full
	ofGroup               // part of a counter's group; the group is the table's primary key
	ofSum                 // a counter's amount
	ofVersion             // the cell's version
)

// typeIfUnknown has, by role, the type of a column about whose values nothing is known. limitIfUnknown says, for a
// comment in the DDL, which values fit this type.
var (
	typeIfUnknown = map[role]string{
		ofRow: "LONGTEXT", ofIndex: "VARCHAR(255)", ofKey: "VARBINARY(255)", ofGroup: "VARCHAR(255)", ofSum: "DECIMAL(65,10)",
	}
	limitIfUnknown = map[role]string{
		ofRow: "texts and numbers fit, lists and objects don't", ofIndex: "up to 255 characters fit",
		ofKey: "up to 255 bytes fit", ofGroup: "up to 255 characters fit", ofSum: "up to 10 decimals fit",
	}
)

// mixed is a type for values of several kinds.
func mixed(r role) string {
	if r == ofIndex {
		return "LONGTEXT"
	}
	return typeIfUnknown[r]
}

type use struct {
	replicator.Field
	role       role
	fieldIndex int // in View.Fields; -1 for a key or the version
}

// usesOf lists what each column of a view's table is for, in the order of a CREATE TABLE.
func usesOf(v *replicator.View) (uses []use) {
	settings := settingsOf(v)
	for i, f := range v.Fields {
		r := ofIndex
		switch {
		case v.Kind == "row":
			r = ofRow
		case v.Kind == "counter" && i == len(v.Fields)-1:
			r = ofSum
		case v.Kind == "counter":
			r = ofGroup
		}
		uses = append(uses, use{f, r, i})
	}
	var keys []use
	for _, f := range settings.KeyFrom {
		keys = append(keys, use{f, ofKey, -1})
	}
	if v.Kind == "row" {
		uses = append(keys, uses...)
	} else {
		uses = append(uses, keys...)
	}
	if settings.VersionColumn != "" {
		uses = append(uses, use{replicator.Field{Name: settings.VersionColumn}, ofVersion, -1})
	}
	return uses
}

type declared struct {
	name   string
	typ    string // the SQL type, with character set and collation if they differ from the table's
	role   role
	given  bool   // the column exists, or the configuration names its type
	note   string // a hint for the person who reads the statement
	origin string // the COMMENT, which says for what purpose the program makes the column
}

func (c *declared) line() string {
	null, origin, note := " NOT NULL", "", ""
	switch {
	case c.given && strings.Contains(strings.ToUpper(c.typ), "NOT NULL"):
		null = ""
	case c.role == ofRow:
		null = " NULL"
	}
	if typ := strings.ToUpper(c.typ); strings.HasPrefix(typ, "TIMESTAMP") && null == " NOT NULL" &&
		!strings.Contains(typ, "DEFAULT") {
		null = steadyTime(false)
	}
	if c.origin != "" {
		origin = " COMMENT '" + c.origin + "'"
	}
	if c.note != "" {
		note = " /* " + c.note + " */"
	}
	return sqlname.Quote(c.name) + " " + c.typ + null + origin + note
}

type declarer struct {
	sink    *Sink
	view    *replicator.View
	from    *origins
	has     *shape        // the existing table; nil: there is none
	sampled []seen.Values // a summary of sampled values for each of the view's fields
	columns []*declared
}

// given is the type of an existing column, or the configured one; "" if declare must choose the type.
func (d *declarer) given(name string) string {
	if c := d.has.column(name); c != nil && c.charset != "" {
		return c.declared + " CHARACTER SET " + c.charset + " COLLATE " + c.collation
	} else if c != nil {
		return c.declared
	}
	return settingsOf(d.view).Types[name]
}

// declare chooses a column's type: the existing or configured one, else one that fits the source's columns, else one
// that fits sampled bodies.
func (d *declarer) declare(ctx context.Context, u use) error {
	c := &declared{name: u.Name, typ: d.given(u.Name), role: u.role, origin: originOf(d.view, u)}
	if has := d.has.column(u.Name); has != nil && !has.isOurs() {
		c.origin = "" // another program's column doesn't get our COMMENT
	}
	d.columns = append(d.columns, c)
	switch {
	case c.typ != "":
		c.given = true
		return nil
	case u.role == ofVersion || u.role == ofSum && d.view.Sum == "": // a counter without a sum counts cells
		c.typ = "BIGINT"
		return nil
	case u.role == ofRow && slices.ContainsFunc(config.OriginsOf(d.view, u.Path), config.Origin.Whole):
		c.typ = "JSON" // a join's row, or a list of a join's rows
		return nil
	}
	var of seen.Values
	if u.fieldIndex >= 0 && u.fieldIndex < len(d.sampled) {
		of = d.sampled[u.fieldIndex]
	}
	typ, err := d.sourceType(ctx, u.Field, u.role)
	if err != nil {
		return err
	}
	switch {
	case typ == "" && !of.Nothing():
		typ = sampledType(&of, u.Name, u.role)
	case typ != "" && d.inBodies(u.Field): // the field is a column in one table, and a property of bodies in another
		typ = mixed(u.role)
	}
	if c.typ = typ; typ == "" {
		c.typ, c.note = typeIfUnknown[u.role], "nothing is known of its values: "+limitIfUnknown[u.role]
	}
	return nil
}

// sampledType is a type that fits sampled values, of which there is at least one.
func sampledType(of *seen.Values, name string, r role) string {
	switch r {
	case ofSum:
		return sumOfSampled(of)
	case ofRow:
		if typ := of.Row(name); typ != "" {
			return typ
		}
		return "LONGTEXT"
	}
	// A search for an exact number in a DOUBLE column can fail.
	if typ, _ := of.Scalar(name); typ != "" && typ != "DOUBLE" {
		return typ
	}
	return mixed(r)
}

// sumOfSampled chooses the type of a counter's sum from sampled amounts.
func sumOfSampled(of *seen.Values) string {
	switch {
	case of.Texts+of.UUIDs+of.Bytes+of.Lists+of.Objects > 0:
		return typeIfUnknown[ofSum]
	case of.Floats > 0:
		return "DECIMAL(65,30)"
	case of.Decimals > 0:
		return fmt.Sprintf("DECIMAL(65,%d)", of.ScaleWithRoom())
	case of.Integers > 0 && !(small(of.Least) && small(of.Greatest)):
		return "DECIMAL(38,0)"
	}
	return "BIGINT"
}

// small reports whether n has at most 40 bits. A BIGINT can hold the sum of eight million such numbers.
func small(n *big.Int) bool { return n.BitLen() <= 40 }

// inBodies reports whether at least one table provides the field from its bodies, and not from a column.
func (d *declarer) inBodies(f replicator.Field) bool {
	return slices.ContainsFunc(config.OriginsOf(d.view, f.Path), func(o config.Origin) bool {
		return config.ColumnOf(d.sink.tables[o.Table], o.Path) == ""
	})
}

// sourceType is the type that fits the source columns that a field is made of; "" if the field is made of none.
func (d *declarer) sourceType(ctx context.Context, f replicator.Field, r role) (string, error) {
	typ := ""
	for _, o := range config.OriginsOf(d.view, f.Path) {
		origin, err := d.from.column(ctx, d.sink.tables[o.Table], o.Path)
		if err != nil {
			return "", err
		}
		if origin == nil {
			continue
		}
		here, err := d.sink.typeFor(ctx, origin, r)
		if err != nil {
			return "", err
		}
		if typ = widest(typ, here); typ == "" {
			return mixed(r), nil
		}
	}
	return typ, nil
}

// notType matches parts of a server's column type that don't concern its values: MariaDB's compression, in a comment,
// and zero padding of numbers.
var notType = regexp.MustCompile(`(?i) ?/\*.*?\*/| zerofill`)

// bare returns the column's type without comments and ZEROFILL.
func (c *SourceColumn) bare() string { return strings.TrimSpace(notType.ReplaceAllString(c.Type, "")) }

// foreign has, for each type that MySQL lacks and MariaDB knows, a type that holds the values as texts.
var foreign = map[string]string{"uuid": "CHAR(36)", "inet4": "VARCHAR(15)", "inet6": "VARCHAR(39)"}

// typeFor returns a type that holds every value of a source's column, with a collation that distinguishes all texts
// that the source's collation distinguishes. r is the role of the view's column. ENUMs and SETs become texts, because
// their columns may get more members.
func (s *Sink) typeFor(ctx context.Context, origin *SourceColumn, r role) (string, error) {
	kind := origin.kind()
	if r == ofSum {
		return sumOf(origin), nil
	}
	srv, err := s.ask(ctx)
	if err != nil {
		return "", err
	}
	typ := origin.bare()
	text, other := foreign[kind]
	switch {
	case kind == "enum":
		return "VARCHAR(255)", nil // the longest possible member
	case kind == "set":
		return fmt.Sprintf("VARCHAR(%d)", max(255, len([]rune(strings.Join(members(typ), ","))))), nil
	case slices.Contains(unconvertible, kind):
		return "LONGBLOB", nil
	case other && !srv.isMariaDB():
		return text, nil
	case kind == "json" && r != ofRow:
		return "LONGTEXT", nil // a JSON column can't be indexed
	case origin.Charset == "":
		return typ, nil
	}
	wanted := "utf8mb4" // holds all texts, even if an ALTER changes the character set of the source's column
	if sizes := sizesOf(typ); (r == ofKey || r == ofGroup) && (len(sizes) != 1 || sizes[0] > prefix) {
		wanted = origin.Charset // in the source's own character set, because utf8mb4 would make a long key too large
	}
	set, collation, err := s.byBytes(ctx, wanted, origin.tellsSpaces())
	if err != nil {
		return "", err
	}
	if set != origin.Charset && !strings.HasPrefix(origin.Charset, "utf8") {
		typ = larger(typ)
	}
	if set != "utf8mb4" { // utf8mb4 is the table's own character set
		typ += " CHARACTER SET " + set + " COLLATE " + collation
	}
	return typ, nil
}

// larger returns the next larger TEXT type, because a text that moves to UTF-8 may need more bytes per character.
func larger(typ string) string {
	switch strings.ToLower(typ) {
	case "tinytext":
		return "text"
	case "text":
		return "mediumtext"
	case "mediumtext":
		return "longtext"
	}
	return typ
}

// declaredSize matches the size of a DECIMAL.
var declaredSize = regexp.MustCompile(`\((\d+),(\d+)\)`)

// sumOf is the type of an exact sum of a column's values.
func sumOf(c *SourceColumn) string {
	switch c.kind() {
	case "tinyint", "smallint", "mediumint", "int", "year":
		return "BIGINT"
	case "bigint", "bit":
		return "DECIMAL(38,0)"
	case "decimal":
		var digits, scale int
		if m := declaredSize.FindString(c.Type); m != "" {
			_, _ = fmt.Sscanf(m, "(%d,%d)", &digits, &scale) // never fails, because the type has this form
			return fmt.Sprintf("DECIMAL(%d,%d)", min(digits+20, 65), scale)
		}
	case "float", "double":
		return "DECIMAL(65,30)"
	}
	return typeIfUnknown[ofSum]
}

// widest is a type that holds the values of both types; "" if there is no such type.
func widest(a, b string) string {
	sizes := []string{"tinytext", "text", "mediumtext", "longtext"}
	switch {
	case a == "" || strings.EqualFold(a, b):
		return b
	case isInteger(a) && isInteger(b):
		return "DECIMAL(20,0)"
	}
	n, m := rank(sizes, a), rank(sizes, b)
	if n >= 0 && m >= 0 {
		return sizes[max(n, m)]
	}
	return ""
}

// rank returns a text type's index in sizes; -1: it is no text. A CHAR or VARCHAR counts as a MEDIUMTEXT, because its
// values may be too long for a TEXT in another character set.
func rank(sizes []string, typ string) int {
	typ = strings.ToLower(typ)
	if strings.HasPrefix(typ, "varchar") || strings.HasPrefix(typ, "char") {
		return 2
	}
	for i, s := range sizes {
		if strings.HasPrefix(typ, s) {
			return i
		}
	}
	return -1
}

func isInteger(typ string) bool {
	c := SourceColumn{Type: typ}
	return integerBits[c.kind()] > 0
}
