package main

import (
	"context"
	"fmt"
	"strings"
)

// This file adds parts to plans that are not faults: tables that a pattern matches, keys that expire, and target tables
// that already exist. It does not use the plan's random numbers, so the rest of a seed's plan stays the same.

// splitTables replaces the first table of some plans by two tables that a pattern matches. It leaves out plans with
// Kafka and tables with joins, because a pattern can't be published or joined. It also leaves out text keys, because a
// pattern's text keys need a NO PAD collation.
func (p *Plan) splitTables() {
	t := &p.Tables[0]
	t.Pattern = p.Topic == nil && !t.Joined && p.Seed/16%4 < 2 && (t.Key == intKey || t.Key == uuidKey)
}

// parts returns the source's tables that make up t: two if a pattern matches them, otherwise t itself.
func (t Table) parts() []Table {
	if !t.Pattern {
		return []Table{t}
	}
	a, b := t, t
	a.Name, b.Name = "a_"+t.Name, "b_"+t.Name
	return []Table{a, b}
}

// holding returns the table of t.parts that contains the nth key.
func (t Table) holding(n int) Table {
	parts := t.parts()
	return parts[n/2%len(parts)]
}

// adorn gives some plans' views keys that expire after the end of any run, or target tables that already exist.
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

// copyTables creates the target tables of views with Copy, before the program starts. Their keys are AUTO_INCREMENT, as
// in a copy of a source's table.
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
