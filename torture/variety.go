package main

import (
	"context"
	"fmt"
	"strings"
)

// What plans have that is no fault, and that a seed decides without changing what else it gives: tables that a pattern
// names, keys that expire, target tables that were there before.

// splitTables has a pattern name the first table of some plans. Rows that go through Kafka come from plain tables, and
// so do joined rows. Text keys would want a collation that pads nothing.
func (p *Plan) splitTables() {
	t := &p.Tables[0]
	t.Pattern = p.Topic == nil && !t.Joined && p.Seed/16%4 < 2 && (t.Key == intKey || t.Key == uuidKey)
}

// parts are the source's tables that the table stands for.
func (t Table) parts() []Table {
	if !t.Pattern {
		return []Table{t}
	}
	a, b := t, t
	a.Name, b.Name = "a_"+t.Name, "b_"+t.Name
	return []Table{a, b}
}

// holding is the source's table that holds the nth key.
func (t Table) holding(n int) Table {
	parts := t.parts()
	return parts[n/2%len(parts)]
}

// adorn gives the views of some plans keys that expire, later than any run ends, and tables of somebody's own.
func (v *View) adorn(t Table, seed uint64) {
	switch v.Sink + " " + v.Kind {
	case "cache hash", "cache json", "cache index":
		if seed/16%2 == 1 {
			v.Expire = "24h"
		}
	case "main row":
		v.Copy = seed/32%2 == 1 && t.Key == intKey && !t.Joined && t.Refers == "" && !v.Merged
	}
}

// copyTables makes the tables that were there before: their keys number rows, as the source's may.
func (w *world) copyTables(ctx context.Context) error {
	for _, v := range w.plan.Views {
		if !v.Copy {
			continue
		}
		for _, db := range w.sinkDBs {
			_, err := db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE %s (%s PRIMARY KEY, n BIGINT, email VARCHAR(40), "+
				"grp VARCHAR(20), amount INT)", v.Name, strings.Replace(intKey.ddl(), "NOT NULL", "AUTO_INCREMENT", 1)))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
