package sinktest

import (
	"math/rand/v2"
	"testing"

	"replicator"
)

func tables() []replicator.Table {
	return []replicator.Table{
		{Name: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key"},
		{Name: "fav", Key: []string{"object_id", "user_id"}},
	}
}

func feeds(f ...replicator.Feed) []replicator.Feed { return f }

func fields(paths ...string) []replicator.Field {
	var out []replicator.Field
	for _, p := range paths {
		out = append(out, replicator.Field{Name: p, Path: p})
	}
	return out
}

func views() []*replicator.View {
	users, profile := replicator.Feed{Table: "cell", Column: "users"}, replicator.Feed{Table: "cell", Column: "profile"}
	fav := replicator.Feed{Table: "fav"}
	return []*replicator.View{
		{Name: "by_email", Kind: "index", From: feeds(users), Fields: fields("email"), Fingerprint: "1"},
		{Name: "by_tag", Kind: "index", From: feeds(users), Fields: fields("tags[]", "city"), Fingerprint: "1"},
		{Name: "by_city", Kind: "index", From: feeds(users, profile), Fields: fields("city"), Fingerprint: "1"},
		{Name: "users", Kind: "row", From: feeds(users), Fields: fields("email", "city"), Fingerprint: "1"},
		{Name: "people", Kind: "row", From: feeds(profile, users), Fields: fields("email", "city"), Fingerprint: "1"},
		{Name: "everything", Kind: "row", From: feeds(replicator.Feed{Table: "cell"}),
			Fields: fields("city"), Fingerprint: "1"},
		{Name: "favorites", Kind: "row", From: feeds(fav), Fields: fields("email"), Fingerprint: "1"},
		{Name: "counter", Kind: "counter", From: feeds(fav), Fields: append(fields("city"),
			replicator.Field{Name: "cnt", Path: "amount"}), Sum: "amount", Fingerprint: "1"},
	}
}

func subject(r *Reference) Subject {
	return Subject{
		Tables: tables(), Views: views(), Histories: 600,
		New:     func(testing.TB) replicator.Sink { return r },
		Read:    func(_ testing.TB, v *replicator.View) map[string]string { return r.Read(v) },
		SetMark: func(_ testing.TB, source, view string, at *replicator.Standing) { r.SetMark(source, view, at) },
		Plant: func(_ testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			r.Plant(v, c, entries)
		},
		Remove: func(_ testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			r.Remove(v, c, entries)
		},
		Bad: map[string]any{"email": Refused{}},
	}
}

func TestReference(t *testing.T) { Run(t, subject(NewReference())) }

// The suite finds the faults that a sink is most likely to have.
func TestBrokenSinksFail(t *testing.T) {
	type rule = func(replicator.State, replicator.Op) (replicator.State, bool)
	for name, next := range map[string]rule{
		"no version check": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			return replicator.State{Version: op.Version, Order: max(op.Order, op.AsOf), AsOf: max(s.AsOf, op.AsOf)}, true
		},
		"as-of is ignored by puts": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			s.AsOf = 0
			return s.Next(op)
		},
		"a reset wins over a later put": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			if op.AsOf != 0 && op.AsOf >= s.AsOf {
				return replicator.State{Version: op.Version, Order: op.AsOf, AsOf: op.AsOf}, true
			}
			return s.Next(op)
		},
		"a reset compares versions": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			if op.AsOf != 0 && op.Version < s.Version {
				return s, false
			}
			return s.Next(op)
		},
		"ties are left alone": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			if op.AsOf == 0 && op.Version == s.Version && op.Order != s.Order {
				return s, false
			}
			return s.Next(op)
		},
		"a delete is forgotten": func(s replicator.State, op replicator.Op) (replicator.State, bool) {
			next, ok := s.Next(op)
			if op.Version == replicator.NoVersion {
				return replicator.Unseen, ok
			}
			return next, ok
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReference()
			r.rule = next
			found(t, r)
		})
	}
	t.Run("the horizon is forgotten, too", func(t *testing.T) {
		r := NewReference()
		r.blind = true
		found(t, r)
	})
}

// found fails the test unless random histories find the sink's fault.
func found(t *testing.T, r *Reference) {
	t.Helper()
	s := subject(r)
	const tries = 2000
	for i := range tries {
		env := newEnvironment(t, &s)
		if err := env.simulate(t.Context(), rand.Uint64()); err != nil {
			t.Logf("found by history %d: %.200s", i+1, err)
			return
		}
	}
	t.Fatalf("not found by %d histories", tries)
}
