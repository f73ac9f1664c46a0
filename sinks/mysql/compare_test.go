package mysql_test

import (
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// A cell's state describes only that cell. Other cells of its entity may still contribute something.
func TestCompareOfAMergedRowWhoseFirstCellContributesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		enforcesChecks(t, s)
		db, dsn := database(t, s,
			"CREATE TABLE people (id BINARY(16) PRIMARY KEY, email VARCHAR(50), phone VARCHAR(50), CHECK (email <> 'refused'))")
		sink := newSink(t, dsn)
		v := view("row", "people", "email")
		v.From, v.Fields = from("cell.profile", "cell.users"), fields("email", "phone")
		target := openTarget(t, sink, v)
		var ops []replicator.Op
		for n, email := range []any{nil, "refused"} { // nil: the profile is deleted
			profile, users := userOp(n, 1, 1, nil), userOp(n, 1, 1, nil)
			profile.Cell.Column = "profile"
			profile.Values[0].Entries[0].Fields, users.Values[0].Entries[0].Fields = []any{email, nil}, []any{nil, "555"}
			if email == nil {
				profile.Version, profile.AsOf, profile.Values[0].Entries = replicator.NoVersion, 5, nil
			}
			ops = append(ops, profile, users)
		}
		if a, err := target.Apply(t.Context(), ops); err != nil || len(a.Rejected) != 1 || a.Rejected[0].Op != 2 {
			t.Fatal(a, err)
		}
		compare := func(want ...replicator.DifferenceKind) {
			t.Helper()
			differences, err := target.Compare(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			var got []replicator.DifferenceKind
			for _, d := range differences {
				got = append(got, d.Kind)
			}
			if !slices.Equal(got, want) {
				t.Errorf("differences: %v, and not %v", got, want)
			}
		}
		compare(replicator.Dead)
		exec(t, db, "DELETE FROM people")
		compare(replicator.Missing, replicator.Missing)
	})
}

// Compare checks a version that comes from the source's rows. It doesn't check a version that is a log position,
// because a later re-read of the same row has another position.
func TestCompareOfAVersionColumn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE people (id BINARY(16) PRIMARY KEY, email VARCHAR(50), version BIGINT)",
			"CREATE TABLE emails (email VARCHAR(50), id BINARY(16), version BIGINT, KEY (id))")
		sink := newSink(t, dsn)
		views := []*replicator.View{view("row", "people", "email"), view("index", "emails", "email")}
		for _, v := range views {
			set(v, func(s *mysql.Settings) { s.VersionColumn = "version" })
		}
		target := openTarget(t, sink, views...)
		op := func(key int, version, order int64, email string) replicator.Op {
			o := userOp(key, version, len(views), email)
			o.Order = order
			return o
		}
		own, position := op(1, 7, 100, "a"), op(2, 100, 100, "b")
		apply(t, target, own, position)
		stale := func(want ...int) {
			t.Helper()
			d, err := target.Compare(t.Context(), []replicator.Op{own, position})
			var got []int
			for _, one := range d {
				got = append(got, one.Op)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v differ, %v, want %v", got, err, want)
			}
		}
		stale()
		exec(t, db, "UPDATE people SET version = 3")
		exec(t, db, "UPDATE emails SET version = 3")
		stale(0, 0)
		again := own
		again.Rewrite = true
		apply(t, target, again)
		stale()
	})
}
