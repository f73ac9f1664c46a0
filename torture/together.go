package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pair is a row view and an index of the same rows in one MySQL database. They change together, so no snapshot may show
// an entry without its row, or a row without its entry.
type pair struct{ row, index View }

// apart lists faults after which a row view and an index of the same rows (a pair) differ for a while. Plans with these
// faults have no pairs. After such a fault, the program rewrites views in place or compares them with the source, one
// view after the other.
var apart = []string{"alter", "column", "cut-over", "rebuild all", "verify"}

// pairs returns the plan's pairs of views that always change together. Plans with Kafka have none, because each record
// belongs to one view. Plans with MINIMAL row images have none, either: their deletes may lack the row's key, and then
// the program compares the views with the source. It compares a view that is not running later than the other one.
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

// lookTogether reads both views of a pair in one statement. The result only counts if both views were running before
// and after the statement, because a paused, failed or lagging view may be behind the other one.
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

// keepsUp reports whether the program maintains both views of a pair, for all their sources. A view that is being
// rebuilt counts if it has a single source: the old view then continues until its replacement is ready. A view with
// several sources is rebuilt in place, so it does not count.
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
