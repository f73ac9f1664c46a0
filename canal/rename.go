package canal

import "slices"

// renamed says that a watched table lost its name, or may have lost it. Another table may have taken the name.
const renamed = "was renamed, or replaced by another table"

// swapped says that another table took the name of a watched table.
const swapped = "was replaced by another table that was renamed to its name"

// rename determines the effect of a RENAME TABLE, whose pairs the servers process from left to right. After a cut-over
// of gh-ost or pt-online-schema-change (RENAME TABLE t TO t_old, t_new TO t), another table has the name t. If no table
// has a watched name after the statement, the watched table's rows are gone.
func (p *statementParser) rename() statement {
	if !p.at(1).is("TABLE") && !p.at(1).is("TABLES") {
		return statement{} // RENAME USER changes no table
	}
	bears := map[string]string{} // by current name: the table's earlier name; "": no table has this name now
	var touched []string         // watched names, in the statement's order
	then := func(name string) string {
		if t, ok := bears[name]; ok {
			return t
		}
		return name
	}
	for i := p.pastIfExists(2); ; i++ {
		from, watchesFrom, next := p.tableAt(i)
		for !p.at(next).is("TO") { // MariaDB allows WAIT n or NOWAIT here
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
		if then(name) != name { // otherwise the table has its old name again
			others = append(others, name)
		}
	}
	return changing(others, what).withoutColumns()
}

// renamesTable recognizes RENAME TO x, RENAME AS x and RENAME x, but not RENAME COLUMN, INDEX or KEY. i is the index of
// the altered table's name. Renaming a table to its own name has no effect, but the servers log it anyway.
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

// tableAt returns the table named at word i: the ID of a watched table, or the database and name of another table. next
// is the index of the word after the name.
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
