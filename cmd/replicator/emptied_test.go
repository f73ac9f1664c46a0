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

// TestATableThatStandsEmptyIsFilledAnew: marks and states are in other tables than what they tell of, and stay when
// that is dropped and made again. The views must not run on without the rows of all that does not change.
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
		more    []string // once it was noticed
		writes  bool     // some cells change all the time until it is noticed
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
				p = l.running() // and nothing is ever written any more
			}
			if c.onLost == "stop" {
				l.failsWith("users", "sink main", "replicator rebuild")
				l.failsWith("by_email", "sink main", "replicator rebuild")
				written()
				l.reaches("index_users_email", "running")
				execAll(t, db, c.more...)
				l.remedied("users", "sink main")
				if l.status("by_email").State == "failed" { // it is named by a command of its own
					l.remedied("by_email", "sink main")
				}
			}
			eventually(t, func() error { return holdsEach(t.Context(), db, cells) })
			l.reaches("users", "running")
			l.caughtUp()
			p.stop()
			p = l.running() // what was filled anew is lost no more
			l.caughtUp()
			if err := holdsEach(t.Context(), db, cells); err != nil {
				t.Error(err)
			}
			p.stop()
		})
	}
}

// writing changes some cells again and again, if it is to, until the returned function is called.
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

// holdsEach says why the tables of users and of the counter do not hold so many rows each.
func holdsEach(ctx context.Context, db *sql.DB, rows int) error {
	for _, table := range []string{"users", "by_email"} {
		var got int
		err := db.QueryRowContext(ctx, "SELECT COUNT(DISTINCT email) FROM "+table).Scan(&got)
		if err == nil && got != rows {
			err = fmt.Errorf("table %s has %d rows, not %d", table, got, rows)
		}
		if err != nil { // it may not be there yet
			return err
		}
	}
	return nil
}
