package canal

import (
	"slices"
	"strings"

	"replicator/canal/gtid"
)

// alteration is an ALTER TABLE or CREATE TABLE of a watched table, split into words. Its methods compute the table's
// layout (the columns and their types) after the statement. After a part that is not understood, the layout is unknown.
//
// Existing parsers, such as TiDB's, reject syntax that MySQL 9 and MariaDB accept, so this package parses the words
// itself.
type alteration struct {
	effect alterEffect
	words  []word // the words after the table's name
	lax    bool   // the server converts values that don't fit a column instead of failing (ALTER IGNORE, or sql_mode)
}

type alterEffect int

const (
	columnsStay    alterEffect = iota // an index is added or dropped, or CREATE TABLE IF NOT EXISTS
	columnsChange                     // ALTER TABLE
	columnsAreMade                    // CREATE TABLE
	columnsUnknown                    // the table is dropped, or replaced by a different table
)

// change is what an ALTER TABLE does to one column.
type change struct {
	old        string // the column that is dropped, renamed or changed; "": a column is added
	name       string // the column's new name; "": the column is dropped
	definition *layoutColumn
	first      bool
	after      string // the column after which AFTER places this one; "": no AFTER
	ifExists   bool   // IF EXISTS, IF NOT EXISTS: no error if there is nothing to do
	generated  bool
	notNull    bool
}

type alterReader struct {
	flavor  gtid.Flavor
	charset string
	changes []change
	convert string // the character set in CONVERT TO CHARACTER SET
}

// after returns the table's layout (its columns and their types) after the statement, given the layout before it. A nil
// layout is unknown.
func (a alteration) after(before *layout, f gtid.Flavor) *layout {
	switch {
	case a.effect == columnsStay:
		return before
	case a.effect == columnsAreMade:
		return a.create(f)
	case a.effect == columnsUnknown:
		return nil
	}
	r := a.read(before, f)
	if r == nil {
		return nil
	}
	return r.apply(before)
}

// read parses the ALTER TABLE clause by clause. The result is nil if a clause is not understood, or if before is nil:
// then the table's columns before the statement are unknown.
func (a alteration) read(before *layout, f gtid.Flavor) *alterReader {
	if before == nil || len(a.words) >= maxWords { // the words after the first maxWords were cut off
		return nil
	}
	r := &alterReader{flavor: f, charset: before.Charset}
	parts := split(a.words)
	for _, p := range parts { // a new default character set also applies to the columns that the same statement adds
		if !r.options(p) {
			return nil
		}
	}
	for _, p := range parts {
		if !r.part(p) {
			return nil
		}
	}
	return r
}

// split splits a list at the commas outside of parentheses.
func split(words []word) (parts [][]word) {
	depth, from := 0, 0
	for i, w := range words {
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth == 0 && (w.is(",") || w.is(";")):
			parts, from = append(parts, words[from:i]), i+1
		}
	}
	return append(parts, words[from:])
}

type wordsAt []word

func (p wordsAt) at(i int) word {
	if i < len(p) {
		return p[i]
	}
	return word{}
}

func (p *wordsAt) skip(keywords ...string) bool {
	for i, k := range keywords {
		if !p.at(i).is(k) {
			return false
		}
	}
	*p = (*p)[len(keywords):]
	return true
}

// options reads the character sets in a clause of table options, which need no commas between them. It ignores other
// clauses, and returns false like option.
func (r *alterReader) options(part wordsAt) bool {
	if ofColumns[strings.ToUpper(part.at(0).text)] {
		return true
	}
	for ; len(part) > 0; part = part[1:] {
		if !r.option(part) {
			return false
		}
	}
	return true
}

// ofColumns lists the first words of clauses in which a character set is a column's.
var ofColumns = map[string]bool{
	"ADD": true, "DROP": true, "MODIFY": true, "CHANGE": true, "ALTER": true, "RENAME": true,
}

// option reads CONVERT TO CHARACTER SET, and the table options CHARACTER SET and COLLATE. It ignores other words. It
// returns false for CONVERT TO CHARACTER SET DEFAULT, because the database's character set is unknown.
func (r *alterReader) option(part wordsAt) bool {
	if part.skip("CONVERT", "TO") {
		charset, ok := part.charset("")
		r.convert, r.charset = charset, charset
		return ok
	}
	part.skip("DEFAULT")
	if charset, ok := part.charset(r.charset); ok {
		r.charset = charset
	}
	return true
}

// charset reads CHARACTER SET x or COLLATE x, and returns the character set's name. For a collation that fits several
// character sets, it returns `current`. ok is false if neither clause comes next, and for DEFAULT, which means the
// database's character set.
func (p wordsAt) charset(current string) (name string, ok bool) {
	set := p.skip("CHARACTER", "SET") || p.skip("CHARSET") || p.skip("CHAR", "SET")
	if !set && !p.skip("COLLATE") {
		return "", false
	}
	w := p.at(0)
	name, _, _ = strings.Cut(w.text, "_") // a collation's name begins with the name of its character set
	switch {
	case w.text == "", w.is("DEFAULT"):
		return "", false
	case set:
		name = w.text
	case strings.HasPrefix(strings.ToLower(name), "uca"): // MariaDB's uca1400 collations fit several character sets
		return current, current != ""
	}
	return charsetName(name), true
}

// part reads one clause of an ALTER TABLE. It returns false if it doesn't understand the clause.
func (r *alterReader) part(part wordsAt) bool {
	first := part.at(0)
	switch {
	case len(part) == 0:
		return true
	case first.quoted:
		return false
	case first.is("ADD"), first.is("DROP"):
		if isKeyAt(part, 1) {
			return true
		}
		rest := part[1:]
		rest.skip("COLUMN")
		if first.is("DROP") {
			return r.drop(rest)
		}
		return r.add(rest)
	case first.is("MODIFY"), first.is("CHANGE"):
		rest := part[1:]
		rest.skip("COLUMN")
		return r.change(rest, first.is("CHANGE"))
	case first.is("RENAME"):
		return r.rename(part[1:])
	}
	return keepsColumns[strings.ToUpper(first.text)]
}

// keepsColumns lists the first words of ALTER TABLE clauses that change neither the order nor the types of columns.
// Table options without commas between them are one clause. Its first word is enough: no option changes columns.
var keepsColumns = map[string]bool{
	"ALTER":  true, // changes a column's default, or whether an index is used or a check is enforced
	"ENGINE": true, "AUTO_INCREMENT": true, "COMMENT": true, "ROW_FORMAT": true, "KEY_BLOCK_SIZE": true, "ALGORITHM": true,
	"LOCK": true, "FORCE": true, "STATS_PERSISTENT": true, "STATS_AUTO_RECALC": true, "STATS_SAMPLE_PAGES": true,
	"COMPRESSION": true, "ENCRYPTION": true, "ENCRYPTED": true, "ENCRYPTION_KEY_ID": true, "PAGE_COMPRESSED": true,
	"PAGE_COMPRESSION_LEVEL": true, "TABLESPACE": true, "CHECKSUM": true, "MAX_ROWS": true, "MIN_ROWS": true,
	"AVG_ROW_LENGTH": true, "ENABLE": true, "DISABLE": true, "DEFAULT": true, "CHARACTER": true, "CHARSET": true,
	"COLLATE": true, "CONVERT": true, "PARTITION": true, "REMOVE": true, "COALESCE": true, "REORGANIZE": true,
	"REBUILD": true, "OPTIMIZE": true, "ANALYZE": true, "CHECK": true, "REPAIR": true,
}

// isKeyAt reports whether the words at i add or drop an index, a constraint or a partition. Except VECTOR, these words
// can't be column names unless they are quoted.
func isKeyAt(part wordsAt, i int) bool {
	w := part.at(i)
	if w.is("VECTOR") {
		return part.at(i+1).is("INDEX") || part.at(i+1).is("KEY")
	}
	return w.isPart() && !w.is("SYSTEM") && !w.is("PERIOD") && !w.is("DEFAULT") && !w.is("(")
}

func (p *wordsAt) exists() bool { return p.skip("IF", "EXISTS") || p.skip("IF", "NOT", "EXISTS") }

func (r *alterReader) drop(p wordsAt) bool {
	if p.at(0).is("SYSTEM") || p.at(0).is("PERIOD") { // adding or dropping SYSTEM VERSIONING adds or drops hidden columns
		return false
	}
	c := change{ifExists: p.exists(), old: p.at(0).text}
	r.changes = append(r.changes, c)
	return p.at(0).isName()
}

func (r *alterReader) add(p wordsAt) bool {
	if p.at(0).is("SYSTEM") || p.at(0).is("PERIOD") {
		return false
	}
	exists := p.exists()
	list := [][]word{p}
	if p.at(0).is("(") && p[len(p)-1].is(")") {
		list = split(p[1 : len(p)-1])
	}
	for _, definition := range list {
		if len(list) > 1 && isKeyAt(definition, 0) {
			continue
		}
		c, ok := r.define(definition)
		if !ok {
			return false
		}
		c.ifExists = exists
		r.changes = append(r.changes, c)
	}
	return true
}

func (r *alterReader) change(p wordsAt, renames bool) bool {
	exists := p.exists()
	old := p.at(0)
	if renames {
		p = p[min(1, len(p)):]
	}
	c, ok := r.define(p)
	c.old, c.ifExists = old.text, exists
	r.changes = append(r.changes, c)
	return ok && old.isName()
}

func (r *alterReader) rename(p wordsAt) bool {
	if p.at(0).is("INDEX") || p.at(0).is("KEY") || p.at(0).is("CONSTRAINT") {
		return true
	}
	if !p.skip("COLUMN") {
		return true // the table keeps its name: statementParser.alter has handled a RENAME to another name
	}
	c := change{ifExists: p.exists(), old: p.at(0).text, name: p.at(2).text}
	r.changes = append(r.changes, c)
	return p.at(0).isName() && p.at(1).is("TO") && p.at(2).isName()
}

func (r *alterReader) define(p wordsAt) (c change, ok bool) {
	name := p.at(0)
	if !name.isName() || p.at(1).is(".") {
		return c, false
	}
	c.name = name.text
	switch n := len(p); {
	case n > 2 && p[n-1].is("FIRST"):
		c.first, p = true, p[:n-1]
	case n > 3 && p[n-2].is("AFTER") && p[n-1].isName():
		c.after, p = p[n-1].text, p[:n-2]
	}
	reader := typeReader{words: p, i: 1}
	t, national, ok := reader.read()
	if !ok {
		return c, false
	}
	charset := r.charset
	if national {
		charset = "utf8mb3"
	}
	if t.name == "json" && r.flavor == gtid.MariaDB { // MariaDB's JSON is a text type
		t.name, charset = "longtext", "utf8mb4"
	}
	if charset, ok = attributes(&t, p[reader.i:], charset); !ok {
		return c, false
	}
	c.constrain(p[reader.i:])
	t.complete(charset)
	column := layoutColumn{Name: c.name, Type: t.String()}
	if t.isText() {
		column.Charset = charset
	}
	c.definition = &column
	return c, true
}

// constrain records whether a column's definition has AS (generated), and NOT NULL or PRIMARY (notNull).
func (c *change) constrain(p wordsAt) {
	depth := 0
	for i, w := range p {
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth > 0:
		case w.is("AS"):
			c.generated = true
		case w.is("NOT") && p.at(i+1).is("NULL"), w.is("PRIMARY"):
			c.notNull = true
		}
	}
}

// attributes reads the words after a column's type into t. It returns the column's character set, which is charset if
// the words name none. It returns false if the character set can't be known, or if the words are about system
// versioning.
func attributes(t *columnType, p wordsAt, charset string) (string, bool) {
	depth := 0
	for ; len(p) > 0; p = p[1:] {
		switch w := p.at(0); {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth > 0 || w.quoted:
		case w.is("CHARACTER"), w.is("CHARSET"), w.is("CHAR"), w.is("COLLATE"):
			set, ok := p.charset(charset)
			if !ok {
				return "", false
			}
			charset = set
			for !p.at(0).is("CHARSET") && !p.at(0).is("COLLATE") && !p.at(0).is("SET") {
				p = p[1:]
			}
			p = p[1:] // skip the character set's name, which may be a keyword such as ASCII
		case w.is("ASCII"):
			charset = "latin1"
		case w.is("UNICODE"):
			charset = "ucs2"
		case w.is("BYTE"):
			charset = "binary"
		case w.is("SYSTEM"), w.is("ROW"): // MariaDB's WITHOUT SYSTEM VERSIONING and AS ROW START are not understood
			return "", false
		default:
			t.flag(w)
		}
	}
	if t.isText() && charset == "" {
		charset = unknownCharset
	}
	return charset, true
}

// apply returns the layout after the changes. As in both servers (mysql_prepare_alter_table), the existing columns that
// don't move come first. Then the moved and added columns are inserted, in the statement's order.
func (r *alterReader) apply(before *layout) *layout {
	after := &layout{Charset: r.charset}
	matched := make([]bool, len(r.changes))
	for _, c := range before.Columns {
		i := slices.IndexFunc(r.changes, func(x change) bool { return x.old != "" && strings.EqualFold(x.old, c.Name) })
		if i < 0 {
			after.Columns = append(after.Columns, c)
			continue
		}
		matched[i] = true
		switch x := r.changes[i]; {
		case x.name == "" || x.first || x.after != "": // the column is dropped, or the next loop adds it at its new place
		case x.definition == nil:
			after.Columns = append(after.Columns, layoutColumn{x.name, c.Type, c.Charset})
		default:
			after.Columns = append(after.Columns, *x.definition)
		}
	}
	for i, x := range r.changes {
		if x.old != "" && !matched[i] || x.old == "" && before.find(x.name) >= 0 {
			dropped := x.old == "" && slices.ContainsFunc(r.changes,
				func(y change) bool { return y.name != x.name && strings.EqualFold(y.old, x.name) })
			if x.ifExists && !dropped {
				continue
			}
			if !dropped {
				return nil
			}
		}
		if x.definition == nil || x.old != "" && !x.first && x.after == "" {
			continue
		}
		at := len(after.Columns)
		switch {
		case x.first:
			at = 0
		case x.after != "":
			if at = after.find(x.after) + 1; at == 0 {
				return nil
			}
		}
		after.Columns = slices.Insert(after.Columns, at, *x.definition)
	}
	return r.converted(after)
}

// converted returns the layout after CONVERT TO CHARACTER SET, if the statement has that part. The result is nil if the
// types may change, too: the server may change a TEXT to a larger type, which the statement doesn't show.
func (r *alterReader) converted(l *layout) *layout {
	if r.convert == "" {
		return l
	}
	for i := range l.Columns {
		t, ok := declaredType(l.Columns[i].Type)
		switch {
		case !ok || !t.isText():
		case strings.HasSuffix(t.name, "text") || r.convert == "binary":
			return nil
		default:
			l.Columns[i].Charset = r.convert
		}
	}
	return l
}

// create returns the layout (columns and types) of the table that a CREATE TABLE makes; nil if unknown.
func (a alteration) create(f gtid.Flavor) *layout {
	p := wordsAt(a.words)
	if !p.at(0).is("(") {
		return nil // CREATE TABLE … LIKE or AS SELECT, which take columns from other tables
	}
	end, depth := 0, 0
	for ; end < len(p); end++ {
		if p[end].is("(") {
			depth++
		}
		if p[end].is(")") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if end == len(p) {
		return nil
	}
	r := &alterReader{flavor: f}
	for options := p[end+1:]; len(options) > 0; options = options[1:] {
		switch w := options.at(0); {
		case w.is("SELECT"), w.is("AS"), w.is("SYSTEM"), w.is("WITH"):
			return nil
		case w.is("PARTITION"):
			options = options[len(options)-1:]
		case !w.quoted && r.charset == "":
			if !r.option(options) {
				return nil
			}
		}
	}
	l := &layout{Charset: r.charset}
	for _, item := range split(p[1:end]) {
		if isKeyAt(item, 0) {
			continue
		}
		c, ok := r.define(item)
		if !ok {
			return nil
		}
		l.Columns = append(l.Columns, *c.definition)
	}
	return l
}
