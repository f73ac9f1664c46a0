package main

import (
	"context"
	"fmt"
	"strings"
)

// Parts of plans that are no faults, and that a seed chooses without changing the rest of its plan: tables that a
// pattern matches, keys that expire, and target tables that already exist.

// splitTables makes a pattern match the first table in some plans. Rows that go through Kafka, and joined rows, must
// come from plain tables. Text keys would need a collation without padding.
func (p *Plan) splitTables() {
	t := &p.Tables[0]
	t.Pattern = p.Topic == nil && !t.Joined && p.Seed/16%4 < 2 && (t.Key == intKey || t.Key == uuidKey)
}

// parts returns the source's tables that make up the table.
func (t Table) parts() []Table {
	if !t.Pattern {
		return []Table{t}
	}
	a, b := t, t
	a.Name, b.Name = "a_"+t.Name, "b_"+t.Name
	return []Table{a, b}
}

// holding returns the source's table that holds the nth key.
func (t Table) holding(n int) Table {
	parts := t.parts()
	return parts[n/2%len(parts)]
}

// adorn gives the views of some plans keys that expire, after the end of any run, or existing target tables.
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

// copyTables creates the existing target tables. Their keys number rows, as the source's may.
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
