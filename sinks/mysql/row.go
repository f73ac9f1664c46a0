package mysql

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// rowKind stores one row per key. If several cells feed the row, each field comes from the first feed that has a value
// for it. The row is missing until its cells provide every NOT NULL field.
//
// Columns that don't belong to the view stay until the row is deleted. If the primary key is an extra AUTO_INCREMENT
// column, each change uses up a number, so that column should be a BIGINT.
type rowKind struct{}

func (rowKind) check(k *keeper, sh *shape) []string {
	k.single = true
	return oneRow(k, sh, k.keyNames(), "entity's key")
}

// oneRow lists the reasons why a table may not have exactly one row for each value of the named columns. what describes
// these columns in messages.
func oneRow(k *keeper, sh *shape, names []string, what string) []string {
	var problems []string
	found := false
	for i := range sh.indexes {
		x := &sh.indexes[i]
		switch {
		case !x.unique || autoOnly(x, sh, k.view):
		case x.exactly(names):
			found = true
		case !x.whole(names):
			// INSERT … ON DUPLICATE KEY UPDATE would change another row that has the same value.
			problems = append(problems, fmt.Sprintf("its unique key %s does not include the whole %s "+
				"(%s), so two rows with the same value in that unique key would overwrite each other: %s",
				x.name, what, strings.Join(names, ", "), x.withoutUnique(k.table)))
		}
	}
	if !found {
		add := "PRIMARY"
		if slices.ContainsFunc(sh.indexes, func(x index) bool { return x.name == "PRIMARY" }) {
			add = "UNIQUE"
		}
		problems = append(problems, fmt.Sprintf("it has no primary or unique key on exactly the %s: "+
			"ALTER TABLE %s ADD %s KEY (%s)", what, k.table, add, strings.Join(quotedNames(names), ", ")))
	}
	return problems
}

func (rowKind) row(k *keeper, e replicator.Entry, version int64) (row, error) {
	r, err := k.convertFields(e, version)
	if err != nil || k.shared {
		return r, err // no check for missing values, because the row's other cells may provide them
	}
	if on := k.shardOn; on != nil && !on.inKey && r[on.place] == nil {
		return nil, fmt.Errorf("column %s decides the shard, and the property is missing or null", on.name)
	}
	return r, k.notNull(r)
}

func (k *keeper) notNull(r row) error {
	for i, c := range k.fields {
		if r[i] == nil && !c.nullable {
			return fmt.Errorf("column %s is NOT NULL, and the property is missing or null", c.name)
		}
	}
	return nil
}

func (rowKind) rows(k *keeper, cells [][]row) []row {
	merged := merge(cells, len(k.fields))
	if merged == nil || (k.shared && k.notNull(merged) != nil) {
		return nil
	}
	return []row{merged}
}

func (rowKind) write(w *writer, k *keeper, changes []change) error {
	rows, keys := make([]row, 0, len(changes)), make([][]any, 0, len(changes))
	var gone []change
	for _, c := range changes {
		merged := k.kind.rows(k, c.rows)
		if merged == nil {
			gone = append(gone, c)
			continue
		}
		rows, keys = append(rows, merged...), append(keys, c.key)
	}
	if err := w.remove(k, gone); err != nil {
		return err
	}
	var sets []string
	for _, c := range k.managed() {
		// Set a text key column, too: the row may belong to another key that the collation treats as equal.
		if !slices.Contains(k.keys, c) || c.collates() {
			sets = append(sets, c.quoted+" = "+w.server.newRow(c.quoted))
		}
	}
	if len(sets) == 0 { // the table has only key columns
		q := k.keys[0].quoted
		sets = []string{q + " = " + w.server.newRow(q)}
	}
	return w.insert(k, rows, keys, w.server.rowAlias()+" ON DUPLICATE KEY UPDATE "+strings.Join(sets, ", "))
}

// merge makes one row from the contributions of a key's cells, in the order of the cells' feeds; nil if no cell
// contributes.
func merge(cells [][]row, fields int) row {
	if len(cells) == 1 && len(cells[0]) == 1 {
		return cells[0][0]
	}
	all := slices.Concat(cells...)
	if len(all) == 0 {
		return nil
	}
	merged := slices.Clone(all[0])
	for i := range fields {
		if g := judge.Giver(len(all), func(n int) bool { return all[n][i] != nil }); g > 0 {
			merged[i] = all[g][i]
		}
	}
	for _, r := range all[1:] {
		if len(r) > fields && newer(r[fields], merged[fields]) {
			merged[fields] = r[fields]
		}
	}
	return merged
}
