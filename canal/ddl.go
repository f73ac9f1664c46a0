package canal

import (
	"slices"
	"strings"
)

// effect is what a statement logged as text means for the reader.
type effect int

const (
	effectNone effect = iota
	effectBegin
	effectCommit
	effectRollback
	effectPartial // ROLLBACK TO SAVEPOINT: a part of the transaction is undone
	effectXABegin // the rows that follow are applied only at XA COMMIT
	effectXAPart  // XA END, XA PREPARE
	effectXAEnd   // XA COMMIT, XA ROLLBACK
	effectSave    // SAVEPOINT, RELEASE: no effect
	effectRows    // the statement changes rows of watched tables without row events
	effectAlter   // the statement may change a watched table's columns or keys
)

// statement is what we know about a statement logged as text: enough to tell whether it changed rows of a watched table
// without row events. If that is unclear, it counts as a change. Existing parsers would not do, because they reject
// each server's newest syntax.
type statement struct {
	effect  effect
	tables  []string // the IDs of the watched tables that the statement concerns: see watched.id
	what    string   // what the statement did to the tables, for error messages
	empties bool     // with effectRows: the tables are empty after the statement

	// How the statement changes the tables' columns.
	columns alteration
	left    []string // the column names that the statement removes, in lower case
	got     []string // the column names that the statement adds, in lower case
}

// classifyStatement determines what a statement does. watched returns the watched tables with this database and name;
// if the name is "", all watched tables of the database.
func classifyStatement(query []byte, database string, mode sqlMode,
	watched func(database, table string) []string) statement {
	p := statementParser{query: query, mode: mode, words: tokenize(query, mode, withoutLiterals), database: database,
		watched: watched}
	return p.classify()
}

// transactionControl recognizes BEGIN and COMMIT, the most frequent statements, without parsing.
func transactionControl(query []byte) (statement, bool) {
	switch len(query) {
	case len("BEGIN"):
		if string(query) == "BEGIN" {
			return statement{effect: effectBegin}, true
		}
	case len("COMMIT"):
		if string(query) == "COMMIT" {
			return statement{effect: effectCommit}, true
		}
	}
	return statement{}, false
}

type statementParser struct {
	query    []byte
	mode     sqlMode
	words    []word
	database string
	watched  func(database, table string) []string
}

func (p *statementParser) at(i int) word {
	if i < len(p.words) {
		return p.words[i]
	}
	return word{}
}

func (p *statementParser) has(texts ...string) bool {
	return slices.ContainsFunc(p.words, func(w word) bool { return slices.ContainsFunc(texts, w.is) })
}

func (p *statementParser) phrase(texts ...string) bool {
	for i := range p.words {
		all := true
		for j, t := range texts {
			all = all && p.at(i+j).is(t)
		}
		if all {
			return true
		}
	}
	return false
}

func (p *statementParser) classify() statement {
	first, second := p.at(0), p.at(1)
	if first.quoted {
		return statement{}
	}
	switch strings.ToUpper(first.text) {
	case "BEGIN", "START":
		return statement{effect: effectBegin}
	case "COMMIT":
		return statement{effect: effectCommit}
	case "ROLLBACK":
		if second.is("TO") || p.at(2).is("TO") {
			return statement{effect: effectPartial}
		}
		return statement{effect: effectRollback}
	case "SAVEPOINT", "RELEASE":
		return statement{effect: effectSave}
	case "XA":
		switch strings.ToUpper(second.text) {
		case "START", "BEGIN":
			return statement{effect: effectXABegin}
		case "COMMIT", "ROLLBACK":
			return statement{effect: effectXAEnd}
		}
		return statement{effect: effectXAPart}
	case "SET":
		return p.prefixed()
	case "TRUNCATE":
		return empties(p.mentioned(), "was truncated")
	case "DROP":
		return p.drop()
	case "RENAME":
		return p.rename()
	case "ALTER":
		return p.alter()
	case "CREATE":
		return p.create()
	case "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "CHECK", "REPAIR", "FLUSH", "LOCK", "UNLOCK", "USE", "COMMENT", "RESET":
		return statement{}
	}
	if p.has("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "MERGE", "IMPORT") {
		return changing(p.target(), loggedAsText)
	}
	return statement{}
}

// prefixed classifies the statement after MariaDB's prefix SET STATEMENT variable = value, … FOR. A FOR inside
// parentheses belongs to a value.
func (p *statementParser) prefixed() statement {
	depth := 0
	for i, w := range p.words {
		switch {
		case !p.at(1).is("STATEMENT"):
			return statement{}
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth == 0 && w.is("FOR"):
			rest := *p
			rest.words = p.words[i+1:]
			return rest.classify()
		}
	}
	return statement{}
}

// target returns the watched tables whose rows a statement changes. In simple statements, the table's position in the
// text is known. Other statements are assumed to change every table that they name.
func (p *statementParser) target() []string {
	switch first := p.at(0); {
	case first.is("INSERT"), first.is("REPLACE"):
		i := 1
		for p.at(i).is("LOW_PRIORITY") || p.at(i).is("DELAYED") || p.at(i).is("HIGH_PRIORITY") ||
			p.at(i).is("IGNORE") || p.at(i).is("INTO") {
			i++
		}
		return some(p.nameAt(i))
	case first.is("UPDATE"):
		return p.before("SET")
	case first.is("DELETE"):
		return p.before("WHERE")
	}
	return p.mentioned()
}

func (p *statementParser) nameAt(i int) string {
	database, table := p.database, p.at(i)
	if p.at(i + 1).is(".") {
		database, table = p.at(i).text, p.at(i+2)
	}
	return p.find(database, table)
}

func (p *statementParser) find(database string, table word) string {
	if table.text == "" {
		return ""
	}
	for _, name := range p.watched(database, table.text) {
		return name
	}
	return ""
}

func some(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// before returns the watched tables that the statement names before a keyword.
func (p *statementParser) before(keyword string) []string {
	head := *p
	if i := slices.IndexFunc(p.words, func(w word) bool { return w.is(keyword) }); i >= 0 {
		head.words = p.words[:i]
	}
	return head.mentioned()
}

// changing returns a statement that changes rows of the watched tables; an empty statement if there are none.
func changing(tables []string, what string) statement {
	if len(tables) == 0 {
		return statement{}
	}
	return statement{effect: effectRows, tables: tables, what: what}
}

// empties returns a statement that removed all rows of the watched tables; an empty statement if there are none.
func empties(tables []string, what string) statement {
	st := changing(tables, what)
	st.empties = len(tables) > 0
	return st
}

func (st statement) withoutColumns() statement {
	st.columns.effect = columnsUnknown
	return st
}

// mentioned returns the watched tables that the statement names, as "database.table" or "table".
func (p *statementParser) mentioned() (tables []string) {
	for i, w := range p.words {
		database := p.database
		switch {
		case i >= 2 && p.words[i-1].is("."):
			database = p.words[i-2].text
		case p.at(i + 1).is("."):
			continue
		}
		if name := p.find(database, w); name != "" && !slices.Contains(tables, name) {
			tables = append(tables, name)
		}
	}
	return tables
}

func (p *statementParser) drop() statement {
	switch kind := p.at(1); {
	case kind.is("TABLE"), kind.is("TABLES"):
		return empties(p.mentioned(), "was dropped").withoutColumns()
	case kind.is("DATABASE"), kind.is("SCHEMA"):
		i := len(p.words) - 1
		for i > 1 && p.words[i].is(";") {
			i--
		}
		return empties(p.watched(p.words[i].text, ""), "was dropped with its database").withoutColumns()
	case kind.is("INDEX"):
		return altering(p.mentioned(), alteration{})
	}
	return statement{}
}

// create handles CREATE TABLE and CREATE INDEX. The table's name follows TABLE or ON. CREATE TABLE IF NOT EXISTS counts
// as no change of the columns, because the servers log it even if the table exists.
func (p *statementParser) create() statement {
	i, replaces := 1, false
	if p.at(1).is("OR") && p.at(2).is("REPLACE") {
		i, replaces = 3, true
	}
	for ; i < len(p.words); i++ {
		switch w := p.words[i]; {
		case w.is("UNIQUE"), w.is("FULLTEXT"), w.is("SPATIAL"), w.is("ONLINE"), w.is("OFFLINE"), w.is("VECTOR"), w.is("HASH"), w.is("RTREE"):
		case w.is("TABLE"):
			name := some(p.nameAt(p.pastIfExists(i + 1)))
			made := alteration{effect: columnsAreMade, words: p.afterName(i + 1)}
			switch {
			case replaces:
				st := changing(name, "was replaced by a new table")
				st.columns = made
				return st
			case p.at(i + 1).is("IF"):
				made = alteration{}
			}
			return altering(name, made)
		case w.is("INDEX"):
			for ; i < len(p.words); i++ {
				if p.words[i].is("ON") {
					return altering(some(p.nameAt(i+1)), alteration{})
				}
			}
		default:
			return statement{}
		}
	}
	return statement{}
}

// altering returns a statement that may change the columns or keys of watched tables; an empty statement if there are
// none.
func altering(tables []string, columns alteration) statement {
	if len(tables) == 0 {
		return statement{}
	}
	return statement{effect: effectAlter, tables: tables, columns: columns}
}

// afterName returns the words after the table name that begins at word i, with the string literals that p.words lacks.
func (p *statementParser) afterName(i int) []word {
	_, _, i = p.tableAt(p.pastIfExists(i))
	for p.at(i).is("WAIT") || p.at(i).is("NOWAIT") { // MariaDB allows WAIT n or NOWAIT after the name
		if p.at(i).is("WAIT") {
			i++
		}
		i++
	}
	if i >= len(p.words) {
		return nil
	}
	return tokenize(p.query[p.words[i].at:], p.mode, withLiterals)
}

func (p *statementParser) pastIfExists(i int) int {
	for p.at(i).is("IF") || p.at(i).is("NOT") || p.at(i).is("EXISTS") {
		i++
	}
	return i
}

// alter handles ALTER. Most forms only change columns. Some move or drop rows without row events.
func (p *statementParser) alter() statement {
	i := 1
	for p.at(i).is("ONLINE") || p.at(i).is("OFFLINE") || p.at(i).is("IGNORE") {
		i++
	}
	if !p.at(i).is("TABLE") {
		return statement{}
	}
	name := p.altered(i)
	if len(name) == 0 {
		return statement{}
	}
	switch {
	case p.phrase("EXCHANGE", "PARTITION"), p.phrase("CONVERT", "PARTITION"), p.phrase("CONVERT", "TABLE"):
		return changing(name, "exchanged a partition with another table").withoutColumns()
	case p.phrase("DROP", "PARTITION"), p.phrase("DROP", "SUBPARTITION"):
		return changing(name, "lost a partition")
	case p.phrase("TRUNCATE", "PARTITION"):
		return changing(name, "had a partition truncated")
	case p.phrase("IMPORT", "TABLESPACE"), p.phrase("DISCARD", "TABLESPACE"), p.phrase("IMPORT",
		"PARTITION"), p.phrase("DISCARD", "PARTITION"):
		return changing(name, "had its tablespace exchanged")
	case p.renamesTable(i + 1):
		return changing(name, renamed).withoutColumns()
	case p.at(1).is("IGNORE") && p.has("UNIQUE", "PRIMARY"), p.at(2).is("IGNORE") && p.has("UNIQUE", "PRIMARY"):
		st := changing(name, "may have lost rows when ALTER IGNORE added a unique key to it")
		st.columns = alteration{effect: columnsChange, words: p.afterName(i + 1), lax: true}
		return st
	}
	st := altering(name, alteration{effect: columnsChange, words: p.afterName(i + 1),
		lax: p.mode&strict == 0 || p.at(i-1).is("IGNORE")})
	st.left, st.got = p.columnNames()
	return st
}

// columnNames returns the column names that an ALTER TABLE removes (left) and adds (got).
func (p *statementParser) columnNames() (left, got []string) {
	depth := 0
	for i, w := range p.words {
		next := i + 1
		if p.at(next).is("COLUMN") {
			next++
		}
		next = p.pastIfExists(next)
		name := p.at(next)
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth > 0 || name.isPart():
		case w.is("RENAME") && p.at(i+1).is("COLUMN") && p.at(next+1).is("TO") && name.fold() != p.at(next+2).fold():
			left, got = append(left, name.fold()), append(got, p.at(next+2).fold())
		case w.is("CHANGE") && name.fold() != p.at(next+1).fold():
			left, got = append(left, name.fold()), append(got, p.at(next+1).fold())
		case w.is("DROP"):
			left = append(left, name.fold())
		case w.is("ADD"):
			got = append(got, name.fold())
		}
	}
	return left, got
}

func (w word) fold() string { return strings.ToLower(w.text) }

// isPart reports whether a word after ADD or DROP is a keyword or "(", and not the name of a column.
func (w word) isPart() bool {
	return !w.quoted && slices.Contains([]string{
		"INDEX", "KEY", "UNIQUE", "PRIMARY", "FULLTEXT", "SPATIAL", "VECTOR", "FOREIGN", "CONSTRAINT", "CHECK",
		"PARTITION", "SUBPARTITION", "DEFAULT", "SYSTEM", "PERIOD", "(",
	}, strings.ToUpper(w.text))
}

// altered returns the watched tables that an ALTER TABLE concerns: the altered table, and other tables that take part,
// such as the one named in EXCHANGE PARTITION.
func (p *statementParser) altered(i int) (tables []string) {
	for ; i < len(p.words); i++ {
		next := i + 1
		switch {
		case p.at(i).is("TABLE"):
			next = p.pastIfExists(next)
		case p.at(i).is("RENAME"):
			for p.at(next).is("TO") || p.at(next).is("AS") {
				next++
			}
		default:
			continue
		}
		if name := p.nameAt(next); name != "" && !slices.Contains(tables, name) {
			tables = append(tables, name)
		}
	}
	return tables
}
