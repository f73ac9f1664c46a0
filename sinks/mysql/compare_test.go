package mysql_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

func TestCompareFindsWhatWasChangedByHand(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))",
			"CREATE TABLE i (email VARCHAR(50) COLLATE utf8mb4_general_ci NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (email, id), KEY (id))")
		sink := newSink(t, dsn)
		defer sink.Close()
		target := openTarget(t, sink, view("row", "r", "email"), view("index", "i", "email"))
		var ops []replicator.Op
		for n := range 20 {
			op := userOp(n, 1, 2, fmt.Sprint("user", n))
			op.Values[1].Entries = append(op.Values[1].Entries, replicator.Entry{Fields: []any{fmt.Sprint("User", n)}}) // equal there
			ops = append(ops, op)
		}
		ops = append(ops, replicator.Op{Cell: userOp(20, 1, 2).Cell, Version: replicator.NoVersion, AsOf: 5, Values: []replicator.Value{{View: 0}, {View: 1}}})
		if a, err := target.Apply(t.Context(), ops); err != nil || len(a.Rejected) > 0 {
			t.Fatal(a, err)
		}
		type place struct{ op, view int }
		compare := func(want map[place]replicator.DifferenceKind) {
			t.Helper()
			differences, err := target.Compare(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			got := map[place]replicator.DifferenceKind{}
			for _, d := range differences {
				got[place{d.Op, d.View}] = d.Kind
				if d.Op < 20 && d.State.Version != 1 {
					t.Errorf("the state of %+v", d)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("differences are %v, and not %v", got, want)
			}
		}
		compare(nil)
		exec(t, db, "UPDATE r SET email = 'other' WHERE email = 'user3'")
		exec(t, db, "DELETE FROM r WHERE email = 'user4'")
		exec(t, db, "INSERT INTO r VALUES (?, 'extra')", fmt.Appendf(nil, "user %-11d", 20))
		exec(t, db, "INSERT INTO i SELECT 'second', id FROM i WHERE email = 'user5'")
		exec(t, db, "DELETE FROM i WHERE email = 'user6'")
		want := map[place]replicator.DifferenceKind{{3, 0}: replicator.Stale, {4, 0}: replicator.Missing, {20, 0}: replicator.Extra, {5, 1}: replicator.Stale, {6, 1}: replicator.Missing}
		compare(want)

		held := map[replicator.Cell]bool{}
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			cells, next, err := target.Held(t.Context(), 0, after, 6)
			if err != nil || pages > 10 {
				t.Fatal(pages, err)
			}
			for _, c := range cells {
				held[c] = true
			}
			after = next
		}
		if len(held) != 20 || !held[ops[20].Cell] || held[ops[4].Cell] {
			t.Errorf("it holds %d cells: %v", len(held), held)
		}

		for i := range ops { // a repair
			ops[i].AsOf = 9
		}
		if _, err := target.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		compare(nil)
	})
}

func TestCompareMergedViews(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE people (id BINARY(16) PRIMARY KEY, email VARCHAR(50), version BIGINT)")
		sink := newSink(t, dsn)
		defer sink.Close()
		v := view("row", "people", "email")
		v.From = from("cell.profile", "cell.users")
		set(v, func(s *mysql.Settings) { s.VersionColumn = "version" })
		target := openTarget(t, sink, v)
		users, profile := userOp(1, 1, 1, "users"), userOp(1, 7, 1, nil)
		profile.Cell.Column = "profile"
		ops := []replicator.Op{users, profile}
		if a, err := target.Apply(t.Context(), ops); err != nil || len(a.Rejected) > 0 {
			t.Fatal(a, err)
		}
		for _, want := range []int{0, 1} {
			differences, err := target.Compare(t.Context(), ops)
			if err != nil || len(differences) != want {
				t.Errorf("differences: %+v, %v", differences, err)
			}
			exec(t, db, "UPDATE people SET email = 'by hand'")
		}
	})
}

// What a cell's state says of it holds for that cell alone: others of its entity may have something to show.
func TestCompareOfAMergedRowWhoseFirstCellContributesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE people (id BINARY(16) PRIMARY KEY, email VARCHAR(50), phone VARCHAR(50), CHECK (email <> 'refused'))")
		sink := newSink(t, dsn)
		defer sink.Close()
		v := view("row", "people", "email")
		v.From, v.Fields = from("cell.profile", "cell.users"), fields("email", "phone")
		target := openTarget(t, sink, v)
		var ops []replicator.Op
		for n, email := range []any{nil, "refused"} { // the first profile is gone
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
