package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"replicator/internal/pause"
)

const patternTargets = `
[tables.orders]
table = "orders_*"
key   = ["$table", "id"]

[views.orders]
from   = "orders"
sink   = "main"
kind   = "row"
create = true
key    = { part = "$table", id = "$id" }
fields = { state = "$state" }
types  = { part = "VARCHAR(64) COLLATE utf8mb4_bin NOT NULL", state = "VARCHAR(20)" }
`

// patternTables measures a view of many tables that match one pattern: a fill, a start, and the idle program. Each
// table has one row. The number of tables is a twentieth of the number of entities.
func (l *lab) patternTables(ctx context.Context) error {
	l.runs++
	n := max(l.entities/20, 1)
	database, dir := fmt.Sprintf("pattern%d", l.runs), filepath.Join(l.dir, fmt.Sprint(l.runs))
	if err := l.makeTables(ctx, database, n); err != nil {
		return err
	}
	if err := create(ctx, l.sinkDB, database); err != nil {
		return err
	}
	if err := l.configure(dir, database, "snapshot", tableSink(l.sink, database)+patternTargets); err != nil {
		return err
	}
	for _, stage := range []string{"fill", "start"} {
		what := fmt.Sprintf("the program: %s tables of a pattern, %s", thousands(int64(n)), stage)
		took, err := l.caughtUp(ctx, dir, what)
		if err != nil {
			return err
		}
		l.add(result{Stage: "tables-" + stage, What: what, Cells: n}, took)
	}
	if err := l.idle(ctx, dir, n); err != nil {
		return err
	}
	var rows int
	err := l.sinkDB.QueryRowContext(ctx, "SELECT COUNT(DISTINCT part) FROM "+database+".orders WHERE state = 'open'").Scan(&rows)
	if err == nil && rows != n {
		err = fmt.Errorf("the result is wrong: the view shows rows of %d tables, not of %d", rows, n)
	}
	for _, db := range []*sql.DB{l.sourceDB, l.sinkDB} {
		if err == nil {
			_, err = db.ExecContext(ctx, "DROP DATABASE "+database)
		}
	}
	return err
}

func (l *lab) makeTables(ctx context.Context, database string, n int) error {
	defer l.show.begin(fmt.Sprintf("making %s tables", thousands(int64(n))))()
	if err := create(ctx, l.sourceDB, database); err != nil {
		return err
	}
	for i := range n {
		table := fmt.Sprintf("%s.orders_%05d", database, i)
		_, err := l.sourceDB.ExecContext(ctx, "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, state VARCHAR(20) NOT NULL)")
		if err == nil {
			_, err = l.sourceDB.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1, 'open')")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// idle measures the program while no rows are written. It first waits for the duration of a latency run, then measures
// for the same time.
func (l *lab) idle(ctx context.Context, dir string, n int) error {
	window := time.Duration(l.options.seconds) * time.Second
	defer l.show.begin("the program, idle")()
	var asked [2]float64
	var took usage
	_, err := l.measureProgram(ctx, dir, []string{"run"}, func(p *program) error {
		if err := pause.For(ctx, window); err != nil {
			return err
		}
		before, err := l.asked(ctx)
		if err != nil {
			return err
		}
		clock, err := l.read()
		if err != nil {
			return err
		}
		spent, err := processCPU(p.Pid())
		if err != nil {
			return err
		}
		if err := pause.For(ctx, window); err != nil {
			return err
		}
		after, err := l.read()
		if err != nil {
			return err
		}
		now, err := processCPU(p.Pid())
		if err != nil {
			return err
		}
		took = usage{wall: after.at.Sub(clock.at), client: now - spent, source: after.source - clock.source,
			sink: after.sink - clock.sink, peak: residentMemory(p.Pid())}
		asked, err = l.asked(ctx)
		for i := range asked {
			asked[i] = (asked[i] - before[i]) / took.wall.Seconds()
		}
		return errors.Join(err, p.Stop())
	})
	if err != nil {
		return err
	}
	l.add(result{Stage: "tables-idle", Cells: l.options.seconds, What: fmt.Sprintf("the program, idle, with %s tables, "+
		"for as many seconds as there are cells here; its current memory; statements a second: source %.1f, sink %.1f",
		thousands(int64(n)), asked[0], asked[1])},
		took)
	return nil
}

// asked returns how many statements source and sink have run.
func (l *lab) asked(ctx context.Context) (n [2]float64, err error) {
	var name string
	if err = l.sourceDB.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n[0]); err != nil {
		return n, err
	}
	return n, l.sinkDB.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n[1])
}
