package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
)

// A repair while the application writes leaves no differences. Most of the writes change columns that the view doesn't
// show, so they only raise the version in the cell's state.
func TestARepairUnderWritesLeavesNothingMissing(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20), note INT)",
		"CREATE TABLE names (id INT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO people SELECT a.n * 40 + b.n, 'before', 0 FROM ("+numbers(50)+") AS a, ("+numbers(40)+") AS b")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, `
[tables.people]
key = "id"

[views.names]
from = "people"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["name"]
`)
	p := l.running()
	l.caughtUp()
	ctx, end := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { writeNotes(ctx, t, l.db) })
	for i := range 2 {
		// Some rows stay each time, because a table that lost all its older rows counts as emptied.
		l.exec(fmt.Sprintf("DELETE FROM names WHERE id %% 8 NOT IN (%d, 7)", i))
		if r := l.run("verify", "names", "--repair"); r.code != exitDone {
			t.Errorf("repair %d: exit status %d: %s%s", i, r.code, r.out, r.errors)
		}
	}
	end()
	writer.Wait()
	l.caughtUp()
	l.must("verify", "names")
	l.expect("SELECT COUNT(*) FROM names", "2000")
	p.stop()
}

// writeNotes changes people some hundred times a second until ctx is done. One change in three concerns the view.
func writeNotes(ctx context.Context, t *testing.T, db *sql.DB) {
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		change := fmt.Sprintf("UPDATE people SET note = %d WHERE id = %d", i, i*7919%2000)
		if i%3 == 0 {
			change = fmt.Sprintf("UPDATE people SET name = 'name %d' WHERE id = %d", i, i*7919%2000)
		}
		if _, err := db.ExecContext(ctx, change); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		ease(ctx, i, time.Since(began))
	}
}
