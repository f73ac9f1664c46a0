package main

import (
	"context"
	"fmt"
)

// catchUp runs the program until it has caught up, from the oldest binlog and from a snapshot, into one index table and into
// all seven tables of the users cell.
func (l *lab) catchUp(ctx context.Context) error {
	for _, c := range []struct {
		stage, start, how string
		raw               string // the raw stage that brings the same cells
		tables            []table
	}{
		{"catch-up-1", "earliest", "the whole binlog", rawReadStage, oneView()},
		{"catch-up-7", "earliest", "the whole binlog", rawReadStage, allViews()},
		{"fill-1", "snapshot", "a scan of the table", rawScanStage, oneView()},
		{"fill-7", "snapshot", "a scan of the table", rawScanStage, allViews()},
	} {
		what := fmt.Sprintf("the program: %s into %d table%s", c.how, len(c.tables), plural(len(c.tables)))
		s, err := l.setUp(ctx, sourceDatabase, c.start, c.tables)
		if err != nil {
			return err
		}
		bar := l.show.bar(what, 0)
		took, err := l.measureProgram(ctx, s, []string{"run", "--until-caught-up"}, (*program).wait)
		bar.done()
		if err != nil {
			return err
		}
		r := result{Stage: c.stage, What: what, Unit: "cell", Units: l.options.cells}
		if r.Checked, err = l.check(ctx, s, l.cells, l.options.cells); err != nil {
			return err
		}
		r.Raw = fmt.Sprintf("%s + %d × %s", c.raw, len(c.tables), rawInsertStage)
		raw := l.raw(c.raw, r.Units) + float64(len(c.tables))*l.raw(rawInsertStage, int(r.Checked)/len(c.tables))
		r.OfRaw = raw / took.wall.Seconds()
		l.add(r, took)
	}
	return nil
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
