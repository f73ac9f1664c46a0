package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"replicator/internal/servers/servertest"
)

// A view's table is dropped or emptied, but its marks and states are in other tables and remain. The view must not run
// on without the rows that don't change any more.
func TestATableThatStandsEmptyIsFilledAnew(t *testing.T) {
	t.Parallel()
	sink := servertest.MySQL(t)
	const counter = "[views.by_email]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"counter\"\n" +
		"group = [\"email\"]\ntable = \"by_email\"\ncreate = true\n"
	both := []string{"DROP TABLE users, by_email"}
	for name, c := range map[string]struct {
		onLost  string
		running bool
		does    []string
		more    []string // statements to run once the program has noticed
		writes  bool     // some cells change all the time until the program has noticed
	}{
		"dropped, and created by the program": {onLost: "rebuild", running: true, does: both},
		"the same while it does not run":      {onLost: "stop", does: both},
		"dropped, and created by hand": {onLost: "stop", running: true, does: both,
			more: []string{usersTable}},
		"emptied": {onLost: "rebuild", running: true, does: []string{"TRUNCATE users"}},
		"emptied under writes": {onLost: "stop", running: true, writes: true,
			does: []string{"TRUNCATE users", "DELETE FROM by_email"}},
		"emptied while it does not run": {onLost: "stop", does: []string{"DELETE FROM users", "TRUNCATE by_email"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, servertest.MySQL(t))
			l.sinkOn2(sink, "")
			users := usersView
			if c.more == nil {
				users = strings.TrimRight(usersView, "\n") + "\ncreate = true\n"
			}
			l.configure(source, "on_lost = \""+c.onLost+"\"\n", program,
				strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, users, counter)
			const cells = 150
			for n := range cells {
				l.put(string([]byte{byte(n)}), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, n))
			}
			p := l.running()
			l.caughtUp()
			if !c.running {
				p.stop()
			}
			db := l.connect(sink, l.database+"_s")
			written := l.writing(c.writes, cells/5)
			execAll(t, db, c.does...)
			if c.running {
				l.put("\x00", 2, `{"email": "new@x.org"}`)
			} else {
				p = l.running() // nothing is written from now on
			}
			if c.onLost == "stop" {
				l.failsWith("users", "sink main", "replicator rebuild")
				l.failsWith("by_email", "sink main", "replicator rebuild")
				written()
				l.reaches("index_users_email", "running")
				execAll(t, db, c.more...)
				l.remedied("users", "sink main")
				if l.status("by_email").State == "failed" { // its status may name another command
					l.remedied("by_email", "sink main")
				}
			}
			eventually(t, func() error { return holdsEach(t.Context(), db, cells) })
			l.reaches("users", "running")
			l.caughtUp()
			p.stop()
			p = l.running() // after a restart, the refilled rows are still there
			l.caughtUp()
			if err := holdsEach(t.Context(), db, cells); err != nil {
				t.Error(err)
			}
			p.stop()
		})
	}
}

// writing changes some cells repeatedly until the returned function is called. With on false, it does nothing.
func (l *lab) writing(on bool, cells int) (end func()) {
	if !on {
		return func() {}
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			l.put(string([]byte{byte(1 + n%cells)}), int64(2+n/cells), fmt.Sprintf(`{"email": "%d@y.org"}`, n))
		}
	})
	return func() {
		cancel()
		writer.Wait()
	}
}

// holdsEach returns an error unless the tables of both views have this many rows.
func holdsEach(ctx context.Context, db *sql.DB, rows int) error {
	for _, table := range []string{"users", "by_email"} {
		var got int
		err := db.QueryRowContext(ctx, "SELECT COUNT(DISTINCT email) FROM "+table).Scan(&got)
		if err == nil && got != rows {
			err = fmt.Errorf("table %s has %d rows, not %d", table, got, rows)
		}
		if err != nil { // the table may not exist yet
			return err
		}
	}
	return nil
}
