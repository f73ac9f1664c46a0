package canal

import "slices"

// renamed describes a watched table whose name was given up and not taken by another.
const renamed = "was renamed, or another table took its place"

// swapped describes a table whose name now belongs to another one.
const swapped = "was replaced by another table that was renamed into its place"

// rename determines the effect of a RENAME TABLE after all its pairs, which the servers process from left to right.
// After a cut-over of gh-ost or pt-online-schema-change (RENAME TABLE t TO t_old, t_new TO t), the name belongs to
// another table. If a watched name is no longer used, its rows are gone.
func (p *statementParser) rename() statement {
	if !p.at(1).is("TABLE") && !p.at(1).is("TABLES") {
		return statement{} // RENAME USER
	}
	bears := map[string]string{} // a name now → the name then of the table that bears it; "": none does
	var touched []string         // watched names, in the statement's order
	then := func(name string) string {
		if t, ok := bears[name]; ok {
			return t
		}
		return name
	}
	for i := p.pastIfExists(2); ; i++ {
		from, watchesFrom, next := p.tableAt(i)
		for !p.at(next).is("TO") { // MariaDB: WAIT n, NOWAIT
			if next++; next >= len(p.words) {
				return changing(p.mentioned(), renamed).withoutColumns()
			}
		}
		to, watchesTo, next := p.tableAt(next + 1)
		bears[to], bears[from] = then(from), ""
		if watchesFrom && !slices.Contains(touched, from) {
			touched = append(touched, from)
		}
		if watchesTo && !slices.Contains(touched, to) {
			touched = append(touched, to)
		}
		if i = next; !p.at(i).is(",") {
			break
		}
	}
	what := swapped
	var others []string
	for _, name := range touched {
		if then(name) == "" {
			what = renamed
		}
		if then(name) != name { // otherwise it returned to its place
			others = append(others, name)
		}
	}
	return changing(others, what).withoutColumns()
}

// renamesTable: RENAME TO x, RENAME AS x, RENAME x; not RENAME COLUMN, INDEX or KEY. The altered table is named at i.
// Renaming it to its own name has no effect, but the servers log it anyway.
func (p *statementParser) renamesTable(i int) bool {
	from, _, _ := p.tableAt(p.pastIfExists(i))
	for i, w := range p.words {
		next := i + 1
		if n := p.at(next); !w.is("RENAME") || n.is("COLUMN") || n.is("INDEX") || n.is("KEY") || n.is("CONSTRAINT") {
			continue
		}
		if p.at(next).is("TO") || p.at(next).is("AS") {
			next++
		}
		if to, _, _ := p.tableAt(next); to != from {
			return true
		}
	}
	return false
}

// tableAt is the table named at i: by its name in the configuration if it is watched, otherwise by database and name.
// next is the index after it.
func (p *statementParser) tableAt(i int) (name string, watches bool, next int) {
	database, table, next := p.database, p.at(i), i+1
	if p.at(i + 1).is(".") {
		database, table, next = p.at(i).text, p.at(i+2), i+3
	}
	if name := p.find(database, table); name != "" {
		return name, true, next
	}
	return database + "." + table.text, false, next
}
