package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// joins checks that rows can be joined, and that indexes serve both directions: from a row to its joined rows, and from
// a changed joined row to the rows that include it. Without these indexes, each change reads a whole table of the
// source.
func (c *checker) joins(ctx context.Context, db beginner, all []replicator.Table) {
	t := tables{byName: map[string][]*watched{}}
	for _, table := range all {
		if table.Pattern { // patterns have no joins
			continue
		}
		shape, err := readSchema(ctx, db, &table)
		if err != nil {
			continue // an earlier check reported the table
		}
		w := &watched{Table: table}
		w.schema.Store(shape)
		t.byName[table.Name] = []*watched{w}
	}
	if refused := t.unjoinable(); len(refused) > 0 {
		for _, err := range refused {
			c.fail("joins", describe(err), "correct the join, or alter its columns to one type and collation")
		}
		return
	}
	said := map[string]bool{}
	for _, table := range all {
		byID := map[string]string{"": table.Name} // lookup ID → the table whose rows the lookup reads; "" → table itself
		for _, l := range table.Lookups {
			byID[l.ID] = l.Table
			var columns []string
			paths := map[string][]string{}
			for _, on := range l.On {
				columns, paths[on.From] = append(columns, on.Column), append(paths[on.From], on.Path)
			}
			c.joinIndex(t.first(l.Table), columns, said)
			c.joinIndex(t.first(byID[l.On[0].From]), paths[l.On[0].From], said)
		}
	}
}

// joinIndex reports a table without an index that begins with the columns by which a join reads the table. said has the
// ALTER statements that were already reported.
func (c *checker) joinIndex(w *watched, columns []string, said map[string]bool) {
	if w == nil || w.schema.Load().hasIndexSet(columns) || w.schema.Load().hasIndex(columns) {
		return
	}
	quoted := make([]string, len(columns))
	for i, name := range columns {
		quoted[i] = sqlname.Quote(name)
	}
	slices.Sort(quoted)
	fix := fmt.Sprintf("ALTER TABLE %s.%s ADD KEY (%s)", sqlname.Quote(w.Database), sqlname.Quote(w.Table.Table),
		strings.Join(quoted, ", "))
	if !said[fix] {
		said[fix] = true
		c.fail("table "+w.Name, "no index begins with "+strings.Join(columns, ", ")+", the columns by which joins "+
			"search the table. Each change of a joined row would read the whole table", fix)
	}
}
