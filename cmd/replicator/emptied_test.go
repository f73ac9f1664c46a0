package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestATableThatStandsEmptyIsFilledAnew: marks and states are in other tables than what they tell of, and stay when that
// is dropped and made again. The views must not run on without the rows of all that does not change.
func TestATableThatStandsEmptyIsFilledAnew(t *testing.T) {
	t.Parallel()
	servertest.EachKindOf(t, []servers.Kind{servers.MySQL, servers.MariaDB1011}, func(t *testing.T, kind servers.Kind) {
		sink := servertest.Shared(t, kind)
		const counter = "[views.by_email]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"email\"]\n" +
			"table = \"by_email\"\ncreate = true\n"
		for name, c := range map[string]struct {
			onLost  string
			running bool
			create  bool
			does    []string
		}{
			"dropped, and created by the program": {"rebuild", true, true, []string{"DROP TABLE users, by_email"}},
			"the same while it does not run":      {"stop", false, true, []string{"DROP TABLE users, by_email"}},
			"dropped, and created by hand":        {"stop", false, false, []string{"DROP TABLE users", usersTable, "TRUNCATE by_email"}},
			"emptied":                             {"rebuild", false, false, []string{"DELETE FROM users", "DELETE FROM by_email"}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, servertest.MySQL(t))
				l.sinkOn2(sink, "")
				users := usersView
				if c.create {
					users = strings.TrimRight(usersView, "\n") + "\ncreate = true\n"
				}
				l.configure(source, "on_lost = \""+c.onLost+"\"\n", program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"),
					emailView, users, counter)
				l.put("a", 1, `{"email": "a@x.org"}`)
				l.put("b", 1, `{"email": "b@x.org"}`)
				p := l.running()
				l.caughtUp()
				if !c.running {
					p.stop()
				}
				db := l.connect(sink, l.database+"_s")
				execAll(t, db, c.does...)
				l.put("b", 2, `{"email": "c@x.org"}`)
				if !c.running {
					p = l.running()
				}
				if c.onLost == "stop" {
					l.failsWith("users", "sink main", "checkpoint reset")
					l.failsWith("by_email", "sink main", "checkpoint reset")
					l.reaches("index_users_email", "running")
					p.stop()
					l.must("checkpoint", "reset", "--yes", "users", "by_email")
					p = l.running()
				}
				eventually(t, func() error { return holdsEach(t.Context(), db, "a@x.org,c@x.org") })
				l.reaches("users", "running")
				l.caughtUp()
				p.stop()
				p = l.running() // what was filled anew is lost no more
				l.caughtUp()
				if err := holdsEach(t.Context(), db, "a@x.org,c@x.org"); err != nil {
					t.Error(err)
				}
				p.stop()
			})
		}
	})
}

// holdsEach says why the tables of users and of the counter do not hold one row of each e-mail address.
func holdsEach(ctx context.Context, db *sql.DB, emails string) error {
	for _, table := range []string{"users", "by_email"} {
		var got sql.NullString
		err := db.QueryRowContext(ctx, "SELECT GROUP_CONCAT(email ORDER BY email) FROM "+table).Scan(&got)
		if err == nil && got.String != emails {
			err = fmt.Errorf("table %s has %s, not %s", table, got.String, emails)
		}
		if err != nil { // it may not be there yet
			return err
		}
	}
	return nil
}
