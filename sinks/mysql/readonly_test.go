package mysql_test

import (
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A sink from before there was a table of the dead gets it when it is opened, as does one whose table somebody dropped:
// nothing has to be filled anew. Cells that were dead before stand there once they are looked at.
func TestTheTableOfTheDeadIsMadeWhereItIsMissing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		enforcesChecks(t, s)
		db, dsn := database(t, s, "CREATE TABLE checked (id BINARY(16) PRIMARY KEY, email VARCHAR(50), CHECK (email <> 'no'))")
		sink := newSink(t, dsn)
		defer sink.Close()
		v := view("row", "checked", "email")
		dead := func(target replicator.Target, want ...replicator.Cell) {
			t.Helper()
			cells, next, err := target.Dead(t.Context(), 0, "", 10)
			if err != nil || next != "" || !slices.Equal(cells, want) {
				t.Errorf("dead are %v (%q, %v), and not %v", cells, next, err, want)
			}
		}
		old, later := userOp(1, 1, 1, "no"), userOp(2, 1, 1, "no")
		apply := func(target replicator.Target, op replicator.Op) {
			t.Helper()
			if a, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil || len(a.Rejected) != 1 {
				t.Fatal(a, err)
			}
		}
		target := openTarget(t, sink, v)
		apply(target, old)
		dead(target, old.Cell)
		exec(t, db, "DROP TABLE replicator_dead")
		target = openTarget(t, sink, v)
		dead(target)
		apply(target, later)
		dead(target, later.Cell)
		apply(target, old) // the state is what it was
		dead(target, old.Cell, later.Cell)
		d, err := target.Compare(t.Context(), []replicator.Op{old})
		if err != nil || len(d) != 1 || d[0].Kind != replicator.Dead {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// `explain` and `verify` open views in sinks that are read-only.
func TestOpeningAKnownViewWritesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, namesTable)
		own := newSink(t, dsn)
		defer own.Close()
		before := view("row", "names", "email")
		before.Fingerprint = "before"
		openTarget(t, own, before)
		openTarget(t, own, view("row", "names", "email")) // the one before is no more
		_, limited := limitedUser(t, db, dsn, map[string]string{
			"names":            "SELECT, INSERT, UPDATE, DELETE", // which are asked for
			"replicator_views": "SELECT", "replicator_locks": "SELECT", "replicator_dead": "SELECT",
			"replicator_state": "SELECT", "replicator_horizons": "SELECT"})
		sink := newSink(t, limited)
		defer sink.Close()
		openTarget(t, sink, view("row", "names", "email"))
	})
}
