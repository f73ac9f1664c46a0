package survey

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// Write writes a configuration for a database. stages lists the codecs to try for bodies. A stage is tried only if the
// stages before it decode no body of a table.
func Write(w io.Writer, db *Database, stages [][]Codec) error {
	p := newPlan(db, stages)
	t := &text{}
	t.head(db)
	for _, f := range p.tables {
		t.table(f)
	}
	t.left(p.left)
	t.sinks(p)
	for _, f := range p.tables {
		t.views(f)
	}
	_, err := w.Write(t.Bytes())
	return err
}

// text is the text of the new configuration. A comment begins with "# ", and a disabled setting with "#".
type text struct{ bytes.Buffer }

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// width is the length at which prose is wrapped.
const width = 125

// say writes prose without line breaks and wraps it.
func (t *text) say(format string, args ...any) {
	line := "#"
	for _, w := range strings.Fields(fmt.Sprintf(format, args...)) {
		if len(line)+1+len(w) > width && line != "#" {
			t.line("%s", line)
			line = "#"
		}
		line += " " + w
	}
	t.line("%s", line)
}

func (t *text) rule() {
	t.line("")
	t.line("# %s", strings.Repeat("-", width-2))
}

// serverNames maps sink types to their names in prose.
var serverNames = map[string]string{"mysql": "MySQL server", "redis": "Redis", "elastic": "Elasticsearch"}

func (t *text) head(db *Database) {
	t.say("A starter configuration for the database %s on %s, by `replicator init`. It works as it stands:",
		shown(db.Name), shown(db.Server))
	t.line("#")
	if db.DSN.variable != "" {
		t.line("#     export %s='...'   # the password of the user of the source, which is not written here", db.DSN.variable)
	}
	for _, target := range db.Targets {
		for _, variable := range target.secrets {
			if variable != db.DSN.variable {
				t.line("#     export %s='...'   # the password at the %s that views are kept in", variable,
					serverNames[target.Type])
			}
		}
	}
	t.line("#     replicator check            # is everything there that it needs?")
	t.line("#     replicator schema           # the DDL of target tables that are missing")
	t.line("#     replicator run              # fill the views, then follow the binlog")
	t.line("#")
	t.say("They read replicator.toml here, or the file named by -c. A line that begins with # and no space is a " +
		"setting: remove the # to use it.")
	t.line("#")
	t.say("The notes on tables come from information_schema, the notes on their contents from a sample of rows. " +
		"A value that does not fit the type that the sample suggests becomes a dead letter " +
		"(`replicator deadletters list`), never a wrong entry.")
	t.line("")
	t.line("[source]")
	t.line("dsn = %s", db.DSN.quoted())
	t.line("")
	t.line("[checkpoint]")
	t.line("path = \"replicator-state\"   # a directory, beside this file")
	t.line("")
	t.line("[http]")
	t.line("listen = \"127.0.0.1:9190\"   # status page, API and metrics; \"\" turns them off")
	t.rule()
	t.say("Source tables, with the columns that have a role. A table that no view is made of costs nothing.")
}

func (t *text) table(f *followed) {
	t.line("")
	comment := ""
	switch {
	case f.Rows == 0 && f.body == nil:
		comment = "#"
		t.say("%s is empty, or was when this was written.", shown(f.commonName()))
	case f.valueOf != "":
		t.say("%s: a row for each attribute of an entity. The attribute's value is in the column %s.",
			shown(f.commonName()), shown(f.valueOf))
	case f.isLog:
		t.log(f)
	case f.version != "":
		t.say("%s: a row for each version of a cell.", shown(f.commonName()))
	case f.body != nil && f.isOutbox():
		t.say("%s: an outbox, a row for each event.", shown(f.commonName()))
	case f.body != nil:
		t.say("%s: a row for each cell, updated in place.", shown(f.commonName()))
	default:
		t.say("%s: plain rows, without a body: the columns are what views are made of.", shown(f.commonName()))
	}
	if own := f.others(); f.body != nil && len(own) > 0 {
		t.say("Views also have the columns outside the body: %s.", shownList(own))
	}
	if f.isOutbox() {
		t.say("Rows deleted from an outbox are deleted from its views, too: views hold the events not published yet.")
	}
	if len(f.objects) > 0 {
		t.say("Objects in JSON are in %s: views reach into them by $COLUMN.PROPERTY.", shownList(f.objects))
	}
	if c := f.unkeyedVersion(); c != "" {
		t.say("If a row is a version of an entity, and not the entity itself, let key name the entity and set "+
			"version = %s.", quoted(c))
	}
	t.line("%s[tables.%s]", comment, f.name)
	switch {
	case f.parts != nil:
		t.line("%stable = %s   # %d tables, %s", comment, quoted(f.parts.pattern()), len(f.parts.names), f.parts.span())
	case f.name != f.Table.Name:
		t.line("%stable = %s", comment, quoted(f.Table.Name))
	}
	t.line("%skey = %s", comment, one(f.key))
	if f.column != "" {
		t.line("%scolumn = %s", comment, quoted(f.column))
	}
	if f.version != "" {
		t.line("%sversion = %s", comment, quoted(f.version))
	}
	if len(f.offset) > 0 {
		t.line("%soffset = %s", comment, one(f.offset))
	}
	t.body(f)
}

// log explains what views of a log contain. A log is a table whose rows never change.
func (t *text) log(f *followed) {
	of := shownList(f.key)
	if f.column != "" {
		of += " and " + shown(f.column)
	}
	t.say("%s: a log. Views hold the newest row of each %s, by %s. If each row is an entity of its own, set key = %s "+
		"and remove the lines version and column.", shown(f.Table.Name), of, shown(f.version), quoted(f.version))
	if !f.leads(f.key[0]) {
		index := append(slices.Clone(f.key), f.version)
		if f.column != "" {
			index = slices.Insert(index, len(f.key), f.column)
		}
		for i, name := range index {
			index[i] = sqlname.Quote(name)
		}
		t.say("No index finds the rows of one entity, so `verify`, `explain` and each delete would scan the table. "+
			"Add one: ALTER TABLE %s ADD KEY (%s);", shown(sqlname.Quote(f.Table.Name)),
			shown(strings.Join(index, ", ")))
	}
}

func (t *text) body(f *followed) {
	b := f.body
	switch {
	case b == nil:
	case b.sure:
		t.line("body = %s", quoted(b.column))
		t.line("codec = %s   # %s", quoted(b.codec), b.reason)
	case b.codec != "":
		t.say("The codec is uncertain: %s as %s. If the codec is right, remove the # before body and codec.",
			b.reason, b.codec)
		t.line("#body = %s", quoted(b.column))
		t.line("#codec = %s", quoted(b.codec))
	default:
		t.say("The codec is not known: %s. Set codec to one of %s. If bodies are compressed, put any of %s before it, "+
			"as in \"zlib+json\". Then remove the # before body and codec.",
			b.reason, strings.Join(replicator.Formats(), ", "), strings.Join(replicator.Compressions(), ", "))
		t.line("#body = %s", quoted(b.column))
		t.line("#codec = \"json\"")
	}
}

// others returns the columns without a role, as a view names them.
func (f *followed) others() (names []string) {
	roles := append([]string{f.column, f.version}, slices.Concat(f.key, f.offset)...)
	for i := range f.Columns {
		if name := f.Columns[i].Name; !has(roles, name) && (f.body == nil || !strings.EqualFold(name, f.body.column)) {
			names = append(names, "$"+pathName(name))
		}
	}
	return names
}

// unkeyedVersion returns a column that is named like a version, if no unique key showed a version. It returns "" if
// there is none.
func (f *followed) unkeyedVersion() string {
	for i := range f.Columns {
		c := &f.Columns[i]
		if f.body != nil && f.version == "" && c.orders() && slices.Contains([]string{"version", "ref_key", "revision"},
			strings.ToLower(c.Name)) && !has(f.key, c.Name) {
			return c.Name
		}
	}
	return ""
}

func shownList(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = shown(n)
	}
	return strings.Join(all, ", ")
}

func (t *text) left(notes []string) {
	if len(notes) == 0 {
		return
	}
	t.line("")
	t.say("Tables that are left out, and why:")
	for _, n := range notes {
		t.say("- %s", n)
	}
}

func (t *text) sinks(p *plan) {
	t.rule()
	t.say("Where views are kept. In one MySQL database all views of a cell change in one transaction. The user needs " +
		"the right to write there: `replicator check` says which is missing.")
	t.stanzas(p.sinks())
}

func (t *text) views(f *followed) {
	for i := range f.kinds {
		s := &f.kinds[i]
		t.rule()
		if i == mostKinds {
			t.say("%s has more values in the sample, which are not described here: %s.", shown(f.column), f.further())
			break
		}
		if s.docs == 0 {
			t.say("%s: no bodies were decoded.", shown(s.from))
			continue
		}
		t.say("%s. Properties of %d sampled rows, with their types and how many rows have them:", shown(s.from), s.docs)
		t.properties(s)
		t.stanzas(s.views)
	}
	if f.body != nil && f.column != "" && len(f.kinds) == 0 {
		t.rule()
		t.say("%s: no rows were sampled, so no views are suggested. In a view of it, from names a kind of row, as in "+
			"from = %s.", shown(f.Table.Name), quoted(f.name+".users"))
	}
	if len(f.views) > 0 {
		t.rule()
		t.say("%s. Columns:", shown(f.name))
		t.line("#")
		for i := range f.Columns {
			t.line("#   %s  %s", pad(shown(f.Columns[i].Name), longestColumn(f.Table)), f.Columns[i].Type)
		}
		t.stanzas(f.views)
	}
}

// further lists the kinds of rows for which the file suggests no views.
func (f *followed) further() string {
	var names []string
	for _, s := range f.kinds[mostKinds:] {
		names = append(names, shown(strings.TrimPrefix(s.from, f.name+".")))
	}
	return strings.Join(names, ", ")
}

func longestColumn(t *Table) (n int) {
	for i := range t.Columns {
		n = max(n, runes(shown(t.Columns[i].Name)))
	}
	return n
}

func runes(s string) int { return len([]rune(s)) }

func pad(s string, n int) string { return s + strings.Repeat(" ", max(n-runes(s), 0)) }

// widest limits the width of the columns in the list of properties.
const widest = 60

func (t *text) properties(s *kindOfRow) {
	path, kind := 0, 0
	for _, p := range s.properties {
		path = min(max(path, runes(shown(p.path))), widest)
		kind = min(max(kind, runes(p.String())), widest)
	}
	t.line("#")
	for _, p := range s.properties {
		t.line("#   %s  %s  %d", pad(shown(p.path), path), pad(p.String(), kind), p.present)
	}
	if s.more {
		t.line("#   (and more)")
	}
}

func (t *text) stanzas(all []stanza) {
	for _, v := range all {
		t.line("")
		comment := "#"
		if v.live {
			comment = ""
		}
		if v.note != "" {
			t.say("%s", v.note)
		}
		t.line("%s[%s]", comment, v.header)
		for _, s := range v.settings {
			t.line("%s%s = %s", comment, s.name, s.text)
		}
	}
}
