package mysql_test

import (
	"fmt"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A target that was opened with an empty table of states treats cells that it has not met as new. States that another
// replicator wrote, and rows that were written by hand, count anyway.
func TestWhatIsGuessedToBeNewAndIsNotIsJudgedAllTheSame(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct {
			what string
			// before runs between the opening of the target and its batch. The batch writes cells 1 to 3 in version 5,
			// with the value "new".
			before func(other replicator.Target, byHand func(n int)) error
			stale  int
			want   map[string]int // how often each value is in the table in the end
		}{
			{"nothing is there", func(replicator.Target, func(int)) error { return nil }, 0, map[string]int{"new": 3}},
			{"a newer version of one", func(other replicator.Target, _ func(int)) error {
				_, err := other.Apply(t.Context(), []replicator.Op{userOp(2, 9, 1, "newer")})
				return err
			}, 1, map[string]int{"new": 2, "newer": 1}},
			{"an older version of one", func(other replicator.Target, _ func(int)) error {
				_, err := other.Apply(t.Context(), []replicator.Op{userOp(2, 1, 1, "older")})
				return err
			}, 0, map[string]int{"new": 3}},
			{"a row by hand", func(_ replicator.Target, byHand func(int)) error { byHand(2); return nil }, 0,
				map[string]int{"new": 3}},
			{"a row by hand, and a later look", func(other replicator.Target, byHand func(int)) error {
				byHand(3)
				op := userOp(2, 9, 1)
				op.AsOf, op.Version = 9, replicator.NoVersion
				_, err := other.Apply(t.Context(), []replicator.Op{op})
				return err
			}, 1, map[string]int{"new": 2}},
		} {
			t.Run(c.what, func(t *testing.T) {
				db, dsn := database(t, s, "CREATE TABLE emails (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL UNIQUE, "+
					"PRIMARY KEY (email, id))")
				sink := newSink(t, dsn)
				v := view("index", "emails", "email")
				other, target := openTarget(t, sink, v), openTarget(t, sink, v)
				mark(t, target)
				byHand := func(n int) {
					exec(t, db, "INSERT INTO emails VALUES ('by hand', ?)", []byte(fmt.Sprintf("user %-11d", n)))
				}
				if err := c.before(other, byHand); err != nil {
					t.Fatal(err)
				}
				var ops []replicator.Op
				for n := range 3 {
					ops = append(ops, userOp(n+1, 5, 1, "new"))
				}
				for range 2 { // the second time nothing is guessed
					applied, err := target.Apply(t.Context(), ops)
					if err != nil || len(applied.Rejected) > 0 || len(applied.Stale) != c.stale {
						t.Fatalf("%+v, %v", applied, err)
					}
				}
				for value, n := range c.want {
					if got := count(t, db, "emails WHERE email = '"+value+"'"); got != n {
						t.Errorf("%s is there %d times", value, got)
					}
				}
				all := 0
				for _, n := range c.want {
					all += n
				}
				if got := count(t, db, "emails"); got != all {
					t.Errorf("there are %d rows", got)
				}
			})
		}
	})
}

// mark ends the first fill of a target.
func mark(t testing.TB, target replicator.Target) {
	t.Helper()
	err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 1, Token: "1"}})
	if err != nil {
		t.Fatal(err)
	}
}
