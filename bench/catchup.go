package main

import "context"

// catchUp measures the program from the oldest binlog until it has caught up. Its only view is an index table.
func (l *lab) catchUp(ctx context.Context) error {
	return l.untilCaughtUp(ctx, "catch-up", "earliest", "the whole binlog")
}

// fill measures the program from a snapshot until it has caught up. Its only view is an index table.
func (l *lab) fill(ctx context.Context) error {
	return l.untilCaughtUp(ctx, "fill", "snapshot", "a scan of the table")
}

func (l *lab) untilCaughtUp(ctx context.Context, stage, start, how string) error {
	what := "the program: " + how + " into an index table"
	took, rows, err := l.runProgram(ctx, start, what, []table{usersEmail})
	if err != nil {
		return err
	}
	l.add(result{Stage: stage, What: what, Cells: l.cells, Checked: rows}, took)
	return nil
}

// runProgram creates empty tables in the sink, runs the program until it has caught up, and checks the tables' rows.
func (l *lab) runProgram(ctx context.Context, start, what string, tables []table) (took usage, rows int64, err error) {
	s, err := l.setUp(ctx, sourceDatabase, start, tables)
	if err != nil {
		return took, 0, err
	}
	took, err = l.caughtUp(ctx, s.dir, what)
	if err != nil {
		return took, 0, err
	}
	rows, err = l.check(ctx, s, l.workload, l.cells)
	return took, rows, err
}
