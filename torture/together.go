package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pair is a row view and an index of the same cells in one MySQL database. They change together, so no snapshot may show
// an entry without its row, or a row without its entry.
type pair struct{ row, index View }

// apart are faults after which views of one database disagree for a while: rewritten in place or compared with the
// source, they change one after the other.
var apart = []string{"alter", "column", "cut-over", "rebuild all", "verify"}

// pairs are the plan's, of views that nothing keeps apart. Through Kafka a cell's record is of one view. Where rows are
// logged in part, views are compared with the source, too: one that was not kept up meanwhile is compared later.
func (p Plan) pairs() (all []pair) {
	if p.Shards > 1 || p.Topic != nil || p.Images == "MINIMAL" ||
		slices.ContainsFunc(p.Faults, func(f Fault) bool { return slices.Contains(apart, f.Name) }) {
		return nil
	}
	for _, row := range p.views("main") {
		for _, index := range p.views("main") {
			if row.Kind == "row" && index.Kind == "index" && row.Table == index.Table && row.Where == index.Where {
				all = append(all, pair{row, index})
			}
		}
	}
	return all
}

// lookTogether reads both views of a pair in one statement. What it sees counts if both ran before and after: one that
// is paused, has failed or catches up may stand elsewhere.
func (r *reader) lookTogether(ctx context.Context, p pair) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !r.w.keepsUp(ctx, p) {
		return
	}
	var alike []string
	for _, column := range append(r.w.plan.table(p.row.Table).Key.columns(), "email") {
		alike = append(alike, fmt.Sprintf("BINARY a.%s = BINARY b.%s", column, column))
	}
	lacking := func(of, in View) string {
		return fmt.Sprintf("(SELECT COUNT(*) FROM %s a WHERE a.email IS NOT NULL AND NOT EXISTS (SELECT 1 FROM %s b WHERE %s))",
			of.Name, in.Name, strings.Join(alike, " AND "))
	}
	var rows, entries int
	err := r.w.sinkDBs[0].QueryRowContext(ctx, "SELECT "+lacking(p.row, p.index)+", "+lacking(p.index, p.row)).
		Scan(&rows, &entries)
	if err != nil || rows+entries == 0 || !r.w.keepsUp(ctx, p) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lost {
		r.wrong = append(r.wrong, fmt.Sprintf("%s and %s: %d rows have no entry, %d entries no row, in one snapshot at %s",
			p.row.Name, p.index.Name, rows, entries, time.Now().Format(time.TimeOnly+".000")))
	}
}

// keepsUp reports whether both views of a pair are kept up, with all that feeds them, as the program says. One of several
// sources is rebuilt in place, apart from the others; one of a single source goes on beside what is to replace it.
func (w *world) keepsUp(ctx context.Context, p pair) bool {
	kept := 0
	for _, v := range statesAt(ctx, w.at.listen) {
		if v.View == p.row.Name || v.View == p.index.Name {
			if v.State != "running" && (v.State != "rebuilding" || w.plan.Parts > 1) {
				return false
			}
			kept++
		}
	}
	return kept >= 2
}
