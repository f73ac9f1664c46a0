package canal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

// An ALTER TABLE that gives a column another type, character set or expression rewrites the values of all rows, without
// logging any of them. This file decides which values may change. Unknown changes count.

// rewrites are the columns, in lower case, whose values may differ after the statement. before is the table's layout
// before it. body is the column whose bytes count, whether they are text or not. all means that every column may be
// affected, because the statement is not understood.
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
		if c.old != "" && (c.generated || c.notNull && a.lax) { // NULL becomes 0 or ''
			columns = append(columns, strings.ToLower(c.name))
		}
	}
	return columns, false
}

// keeps reports whether a column made from another one certainly has the same values, as views show them. For a body
// the bytes count. Unless lax is set, a value that doesn't fit is an error of the server.
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
		return c.Charset == was.Charset || !strings.HasSuffix(to.name, "text") // a longer character may not fit
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
	case "enum enum": // each row keeps its member's text
		return !slices.ContainsFunc(from.args, func(m string) bool { return !slices.Contains(to.args, m) })
	case "set set": // its members are shown in their order
		return startsWith(to.args, from.args)
	}
	if isInteger(from.name) && isInteger(to.name) {
		return !lax || rank(integers, to) > rank(integers, from) && (!to.unsigned || from.unsigned) ||
			rank(integers, to) == rank(integers, from) && to.unsigned == from.unsigned
	}
	if from.name == "char" || from.name == "varchar" {
		return rank(texts, to) >= 1 && number(from, 0) < 1<<14 || rank(texts, to) >= 2 // of 4 bytes a character
	}
	if from.name == "binary" || from.name == "varbinary" {
		return rank(blobs, to) >= 1
	}
	return rank(texts, from) >= 0 && rank(texts, to) > rank(texts, from) ||
		rank(blobs, from) >= 0 && rank(blobs, to) > rank(blobs, from)
}

// Types, each of which holds all values of those before it.
var (
	integers = []string{"tinyint", "smallint", "mediumint", "int", "bigint"}
	texts    = []string{"tinytext", "text", "mediumtext", "longtext"}
	blobs    = []string{"tinyblob", "blob", "mediumblob", "longblob"}
)

// rank is a type's index among others; -1: it is none of them.
func rank(types []string, t columnType) int { return slices.Index(types, t.name) }

func startsWith(list, beginning []string) bool {
	return len(list) >= len(beginning) && slices.Equal(list[:len(beginning)], beginning)
}

// asBytes is a text column in a Unicode character set as a binary one.
func (c layoutColumn) asBytes() layoutColumn {
	if c.Charset != "utf8mb4" && c.Charset != "utf8mb3" && c.Charset != "ascii" {
		return c
	}
	return layoutColumn{c.Name, strings.Replace(c.Type, "text", "blob", 1), ""}
}

// columnsChanged: columns that are read lose their names, get values that no event has, or change their values. The
// table still has all needed columns, or reading would have ended (reread). The log doesn't list the values: those of a
// column that got the name in the same statement or a later one, the default of a new column, or the server's
// conversion of existing values.
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

// made describes the statement's effect on a column, given in lower case.
func (st statement) made(column string) string {
	left, got := slices.Contains(st.left, column), slices.Contains(st.got, column)
	switch {
	case left && got:
		return "was replaced by another one of its name"
	case left:
		return "was dropped or renamed"
	case got:
		return "was added"
	}
	return "may have other values: its type, character set or expression changed"
}
