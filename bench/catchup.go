package main

import (
	"context"
	"fmt"
)

// catchUp runs the program from the oldest binlog until it has caught up, into one index table and into all seven
// tables of the users cell.
func (l *lab) catchUp(ctx context.Context) error {
	return l.untilCaughtUp(ctx, "catch-up", "earliest", "the whole binlog", rawReadStage)
}

// fill does the same from a snapshot.
func (l *lab) fill(ctx context.Context) error {
	return l.untilCaughtUp(ctx, "fill", "snapshot", "a scan of the table", rawScanStage)
}

// untilCaughtUp runs the program into empty tables until it has caught up. raw is the stage that brings the same cells
// raw.
func (l *lab) untilCaughtUp(ctx context.Context, stage, start, how, raw string) error {
	for _, tables := range [][]table{oneView(), allViews()} {
		what := fmt.Sprintf("the program: %s into %d table%s", how, len(tables), plural(len(tables)))
		took, rows, err := l.runProgram(ctx, start, what, tables)
		if err != nil {
			return err
		}
		n := len(tables)
		r := result{Stage: fmt.Sprintf("%s-%d", stage, n), What: what, Unit: "cell", Units: l.cells, Checked: rows}
		reading, writing := l.raw(raw, r.Units), l.raw(rawInsertStage, int(r.Checked)/n)
		if reading > 0 && writing > 0 {
			r.Raw = fmt.Sprintf("%s + %d × %s", raw, n, rawInsertStage)
			r.OfRaw = (reading + float64(n)*writing) / took.wall.Seconds()
		}
		l.add(r, took)
	}
	return nil
}

// runProgram runs the program into empty tables until it has caught up, and checks their rows.
func (l *lab) runProgram(ctx context.Context, start, what string, tables []table) (took usage, rows int64, err error) {
	s, err := l.setUp(ctx, sourceDatabase, start, tables)
	if err != nil {
		return took, 0, err
	}
	bar := l.show.bar(what, 0)
	took, err = l.measureProgram(ctx, s.dir, []string{"run", "--until-caught-up"}, wait)
	bar.done()
	if err != nil {
		return took, 0, err
	}
	rows, err = l.check(ctx, s, l.workload, l.cells)
	return took, rows, err
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
