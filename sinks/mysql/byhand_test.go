package mysql_test

import (
	"database/sql"
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/sinktest"
)

// place finds an entry of a cell in a view's table: by columns and their values.
type place struct {
	columns []string
	values  []any
}

func (p *place) add(column string, value any) {
	p.columns, p.values = append(p.columns, "`"+column+"`"), append(p.values, value)
}

// where returns the condition that finds the place.
func (p *place) where() string { return " WHERE " + strings.Join(p.columns, " = ? AND ") + " = ?" }

// keyOf returns a view's key columns, with their values for a cell.
func keyOf(t testing.TB, v *replicator.View, c replicator.Cell) (key place) {
	t.Helper()
	parts, err := c.Key.Values()
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range map[string]replicator.Table{"cell": tables[0], "fav": tables[1]}[c.Table].Key {
		for _, f := range settings(v).KeyFrom {
			if f.Path == "$"+part {
				key.add(f.Name, parts[i])
			}
		}
	}
	return key
}

// identity returns the columns that identify an entry: a counter's group, a row's key, all of an index entry.
func identity(t testing.TB, v *replicator.View, c replicator.Cell, e replicator.Entry) place {
	t.Helper()
	if v.Kind == "row" {
		return keyOf(t, v, c)
	}
	at := keyOf(t, v, c)
	fields := v.Fields
	if v.Kind == "counter" {
		at, fields = place{}, fields[:len(fields)-1]
	}
	for i, f := range fields {
		at.add(f.Name, e.Fields[i])
	}
	return at
}

// remove deletes entries from a view's table by plain SQL.
func remove(t testing.TB, db *sql.DB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
	t.Helper()
	for _, e := range entries {
		at := identity(t, v, c, e)
		exec(t, db, "DELETE FROM `"+settings(v).Table+"`"+at.where(), at.values...)
	}
}

// plant puts entries into a view's table by plain SQL.
func plant(t testing.TB, db *sql.DB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
	t.Helper()
	for _, e := range entries {
		at := identity(t, v, c, e)
		switch {
		case v.Kind == "row":
			for i, f := range v.Fields {
				at.add(f.Name, e.Fields[i])
			}
		case v.Kind == "counter":
			at.add(v.Fields[len(v.Fields)-1].Name, e.Fields[len(v.Fields)-1])
		}
		if settings(v).VersionColumn != "" {
			at.add(settings(v).VersionColumn, 0)
		}
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(at.values)), ", ")
		exec(t, db, "REPLACE INTO `"+settings(v).Table+"` ("+strings.Join(at.columns,
			", ")+") VALUES ("+marks+")", at.values...)
	}
}

// shown returns the name that read gives an entry.
func shown(v *replicator.View, c replicator.Cell, e replicator.Entry) string {
	switch v.Kind {
	case "row":
		return c.Key.String()
	case "counter":
		return sinktest.EntryID(e.Fields[:len(e.Fields)-1], "")
	}
	return sinktest.EntryID(e.Fields, c.Key.String())
}
