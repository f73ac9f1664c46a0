package canal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

// An ALTER TABLE that gives a column a different type, character set or expression rewrites the values of all rows, and
// logs none of the rows. This file decides which values may have changed. In doubt, it assumes that they have.

// rewrites returns the columns, in lower case, whose values may have changed. body names the body column, of which only
// the bytes count. all means that any column may have changed, because the statement is not understood.
func (a alteration) rewrites(before *layout, body string, f gtid.Flavor) (columns []string, all bool) {
	if a.effect != columnsChange {
		return nil, false
	}
	r := a.read(before, f)
	var after *layout
	if r != nil {
		after = r.apply(before)
	}
	if after == nil {
		return nil, len(a.words) >= maxWords || slices.ContainsFunc(a.words, func(w word) bool {
			return w.is("MODIFY") || w.is("CHANGE") || w.is("CONVERT")
		})
	}
	for _, c := range after.Columns {
		if i := before.find(c.Name); i >= 0 && !c.keeps(before.Columns[i], a.lax, strings.EqualFold(c.Name, body)) {
			columns = append(columns, strings.ToLower(c.Name))
		}
	}
	for _, c := range r.changes {
		if c.old != "" && (c.generated || c.notNull && a.lax) { // the values are computed anew, or NULLs became 0 or ''
			columns = append(columns, strings.ToLower(c.name))
		}
	}
	return columns, false
}

// keeps reports whether a column's conversion from `was` to `c` certainly leaves all values as views show them. For the
// body column, only its bytes count. `lax` means that the server converts values that don't fit, instead of refusing
// the statement.
func (c layoutColumn) keeps(was layoutColumn, lax, isBody bool) bool {
	if isBody && !lax {
		c, was = c.asBytes(), was.asBytes()
	}
	to, known := declaredType(c.Type)
	from, wasKnown := declaredType(was.Type)
	if !known || !wasKnown {
		return c.Type == was.Type
	}
	if to.isText() && c.Charset != was.Charset && c.Charset != "utf8mb4" || was.Charset == unknownCharset {
		return false
	}
	if to.name == from.name && slices.Equal(to.args, from.args) && to.unsigned == from.unsigned {
		// In the new character set, values may have more bytes, and no longer fit into a TEXT.
		return c.Charset == was.Charset || !strings.HasSuffix(to.name, "text")
	}
	number := func(t columnType, i int) int {
		n, _ := strconv.Atoi(t.args[i])
		return n
	}
	switch pair := from.name + " " + to.name; pair {
	case "decimal decimal":
		return number(to, 1) == number(from, 1) && number(to, 0) >= number(from, 0)
	case "bit bit", "char char", "char varchar", "varchar varchar", "varbinary varbinary", "binary varbinary":
		return number(to, 0) >= number(from, 0)
	case "enum enum": // a row's value is shown as its text, whatever its number
		return !slices.ContainsFunc(from.args, func(m string) bool { return !slices.Contains(to.args, m) })
	case "set set": // a value lists its elements in the type's order, so new elements must come last
		return startsWith(to.args, from.args)
	}
	if isInteger(from.name) && isInteger(to.name) {
		return !lax || rank(integers, to) > rank(integers, from) && (!to.unsigned || from.unsigned) ||
			rank(integers, to) == rank(integers, from) && to.unsigned == from.unsigned
	}
	if from.name == "char" || from.name == "varchar" {
		// A TEXT has room for 16383 characters of 4 bytes.
		return rank(texts, to) >= 1 && number(from, 0) < 1<<14 || rank(texts, to) >= 2
	}
	if from.name == "binary" || from.name == "varbinary" {
		return rank(blobs, to) >= 1
	}
	return rank(texts, from) >= 0 && rank(texts, to) > rank(texts, from) ||
		rank(blobs, from) >= 0 && rank(blobs, to) > rank(blobs, from)
}

// In each list, a type holds all values of the types before it.
var (
	integers = []string{"tinyint", "smallint", "mediumint", "int", "bigint"}
	texts    = []string{"tinytext", "text", "mediumtext", "longtext"}
	blobs    = []string{"tinyblob", "blob", "mediumblob", "longblob"}
)

func rank(types []string, t columnType) int { return slices.Index(types, t.name) }

func startsWith(list, beginning []string) bool {
	return len(list) >= len(beginning) && slices.Equal(list[:len(beginning)], beginning)
}

// asBytes returns a column of UTF-8 or ascii text as the binary column with the same bytes. It returns other columns
// unchanged.
func (c layoutColumn) asBytes() layoutColumn {
	if c.Charset != "utf8mb4" && c.Charset != "utf8mb3" && c.Charset != "ascii" {
		return c
	}
	return layoutColumn{c.Name, strings.Replace(c.Type, "text", "blob", 1), ""}
}

// columnsChanged reports a statement that dropped, renamed, added or converted columns that views read: the log does
// not have the columns' new values.
func (s *stream) columnsChanged(st statement, table string, rewritten []string, anyOf bool) error {
	t := s.tables.byID[table]
	if len(rewritten) > 0 || anyOf {
		for _, c := range t.schema.Load().columns {
			if c.generated || anyOf {
				rewritten = append(rewritten, strings.ToLower(c.Name))
			}
		}
	}
	first, how, ofAll := "", "", false
	var views []string
	for _, column := range t.readOf(st.left, st.got, rewritten) {
		if first == "" {
			first, how = column, st.made(strings.ToLower(column))
		}
		own := t.readers(column)
		views, ofAll = append(views, own...), ofAll || len(own) == 0
	}
	if first == "" {
		return nil
	}
	if len(t.readers(first)) > 0 {
		how += " (" + t.neededBy(first) + ")"
	}
	err := fmt.Errorf("table %s: column %s %s: %w", table, first, how, replicator.ErrUnlogged)
	if !ofAll {
		slices.Sort(views)
		err = replicator.OfView(err, slices.Compact(views)...)
	}
	return s.unlogged(table, err)
}

func (st statement) made(column string) string {
	left, got := slices.Contains(st.left, column), slices.Contains(st.got, column)
	switch {
	case left && got:
		return "was replaced by another column of the same name"
	case left:
		return "was dropped or renamed"
	case got:
		return "was added"
	}
	return "may have other values, because its type, character set or expression changed"
}
