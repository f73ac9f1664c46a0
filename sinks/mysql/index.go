package mysql

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// indexKind stores, for each key, one row for each distinct value: the fields' columns and the key columns.
//
// A key's old entries are found by the key columns. So no before-image is needed, and rows of the key that were added
// by hand are removed as well. If the table's unique key treats two values as equal ("Foo" and "foo"), the table has
// only the first.
type indexKind struct{}

func (indexKind) check(k *keeper, sh *shape) []string {
	var problems []string
	names := k.keyNames()
	isList := func(f replicator.Field) bool { return strings.Contains(f.Path, "[]") }
	several := k.shared || slices.ContainsFunc(k.view.Fields, isList)
	indexed := false
	for i := range sh.indexes {
		x := &sh.indexes[i]
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(x.parts[0].column, n) }) {
			indexed = true
		}
		if !x.unique || autoOnly(x, sh, k.view) {
			continue
		}
		switch {
		case x.exactly(names):
			k.single = true
			if several {
				problems = append(problems, fmt.Sprintf("its unique key %s allows only one row for each key, "+
					"but the view may have several: %s", x.name, x.withoutUnique(k.table)))
			}
		case !x.whole(names):
			problems = append(problems, fmt.Sprintf("its unique key %s doesn't hold the whole key (%s), "+
				"so two entities could not share a value: ALTER TABLE %s %s",
				x.name, strings.Join(names, ", "), k.table, x.dropClause()))
		case several && slices.ContainsFunc(x.parts, func(p part) bool { return p.prefix }):
			problems = append(problems, fmt.Sprintf("its unique key %s holds only the beginning of a column, "+
				"so it would refuse two values with the same beginning: %s", x.name, x.withoutUnique(k.table)))
		}
	}
	if !indexed {
		problems = append(problems, fmt.Sprintf("no index begins with the key, so every write would read the whole table: "+
			"ALTER TABLE %s ADD KEY (%s)",
			k.table, k.keys[0].quoted))
	}
	return problems
}

// autoOnly reports whether an index consists only of an AUTO_INCREMENT column that the view does not write. The server
// fills such a column, so the index refuses no row.
func autoOnly(x *index, sh *shape, v *replicator.View) bool {
	if len(x.parts) != 1 {
		return false
	}
	c := sh.column(x.parts[0].column)
	return c != nil && c.autoIncrement && !manages(v, c.name)
}

func (indexKind) row(k *keeper, e replicator.Entry, version int64) (row, error) {
	if slices.Contains(e.Fields, nil) {
		return nil, nil // a property is missing or null, so there is no entry
	}
	return k.convertFields(e, version)
}

func (indexKind) rows(k *keeper, cells [][]row) []row { return distinct(cells, len(k.fields)) }

func (indexKind) write(w *writer, k *keeper, changes []change) error {
	if err := w.remove(k, changes); err != nil {
		return err
	}
	rows, keys := make([]row, 0, len(changes)), make([][]any, 0, len(changes))
	several := false
	for _, c := range changes {
		n := len(rows)
		for _, r := range k.kind.rows(k, c.rows) {
			rows, keys = append(rows, r), append(keys, c.key)
		}
		several = several || len(rows)-n > 1
	}
	suffix := ""
	if several {
		// If the unique key treats a row as equal to one just inserted for the same key, nothing changes.
		q := k.keys[0].quoted
		suffix = " ON DUPLICATE KEY UPDATE " + q + " = " + k.table + "." + q
	}
	return w.insert(k, rows, keys, suffix)
}

// distinct returns the rows of all cells of a key, one per value. Of equal rows, the one with the highest version
// stays.
func distinct(cells [][]row, fields int) []row {
	if len(cells) == 1 && len(cells[0]) == 1 {
		return cells[0]
	}
	var all []row
	seen := map[string]int{}
	for _, rows := range cells {
		for _, r := range rows {
			value := string(appendRows(nil, []row{r[:fields]}))
			if i, ok := seen[value]; ok {
				if len(r) > fields && newer(r[fields], all[i][fields]) {
					all[i] = r
				}
				continue
			}
			seen[value] = len(all)
			all = append(all, r)
		}
	}
	return all
}

func newer(a, b any) bool {
	x, ok := a.(int64)
	y, ok2 := b.(int64)
	return ok && ok2 && x > y
}
