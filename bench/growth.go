package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// point is one run of a growth curve, on which a single size varies.
type point struct {
	curve string // the name of the size that varies: cells, views or body
	at    int    // the varying size in this run
	cells int
	views int
	body  int
}

// growthBytes limits the total size of the bodies in one run: long bodies need fewer rows to show their cost.
const growthBytes = 256 << 20

// curves are the names of the growth curves. Each is named after the one size that varies from run to run.
var curves = [...]string{"cells", "views", "body"}

// points returns the runs that the growth stage measures. Each run is a point of one growth curve. The options limit
// the sizes.
func (o options) points() []point {
	var all []point
	for _, n := range []int{10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000} {
		if n <= o.cells {
			all = append(all, point{curve: "cells", at: n, cells: n, views: 1, body: o.body})
		}
	}
	if len(all) == 0 {
		all = append(all, point{curve: "cells", at: o.cells, cells: o.cells, views: 1, body: o.body})
	}
	for _, n := range []int{1, 2, 5, 10, 20, 50} {
		all = append(all, point{curve: "views", at: n, cells: max(o.cells/20, 1), views: n, body: o.body})
	}
	for _, n := range []int{100, 250, 1000, 4000, 16_000, 65_535} { // 65,535 is a BLOB's maximum
		all = append(all, point{curve: "body", at: n, cells: max(min(o.cells/10, growthBytes/n), 1), views: 1, body: n})
	}
	return slices.DeleteFunc(all, func(p point) bool { return o.curve != "" && p.curve != o.curve })
}

// growth measures how the cost of a row grows with the number of rows, the number of views, and the size of the
// bodies. The rows are of different users, and the views are index tables. Each run has its own binlog.
func (l *lab) growth(ctx context.Context) (err error) {
	own, closing, err := l.beside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	for _, p := range l.points() {
		if err := own.emptySource(ctx); err != nil {
			return err
		}
		own.cells = p.cells
		own.workload = &workload{entities: p.cells, body: p.body, begin: time.Now().UnixNano(), order: phased,
			emailOnly: p.curve == "body"} // bodies with all properties would be longer than the shortest wanted body
		if err := own.prepare(ctx); err != nil {
			return err
		}
		what := fmt.Sprintf("the program: %s cells of %d bytes, index tables: %d", thousands(int64(p.cells)), p.body, p.views)
		took, rows, err := own.runProgram(ctx, "earliest", what, emailTables(p.views))
		if err != nil {
			return err
		}
		l.add(result{Stage: fmt.Sprintf("growth-%s-%d", p.curve, p.at), What: what, Cells: p.cells, Checked: rows}, took)
	}
	return nil
}

func (l *lab) emptySource(ctx context.Context) error {
	reset := "RESET BINARY LOGS AND GTIDS"
	if l.source.Kind.IsMariaDB() {
		reset = "RESET MASTER"
	}
	for _, q := range []string{"DROP DATABASE IF EXISTS " + sourceDatabase, reset} {
		if _, err := l.sourceDB.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// emailTables returns n index tables of the same property.
func emailTables(n int) []table {
	tables := make([]table, n)
	for i := range tables {
		tables[i] = table(fmt.Sprintf("%s_%d", usersEmail, i+1))
	}
	return tables
}
