package redis

import (
	"slices"
	"strings"
	"testing"

	"replicator"
)

// If another program put a key of another type where an entity was shown, the key is left alone when the entity moves
// away. If such a key is where the entity should be shown, the value is rejected. The entity is then shown nowhere, not
// at its former key.
func TestAMovedEntryLeavesKeysOfAnotherTypeAlone(t *testing.T) {
	f := open(t, view("s", "index", "s:{a}"))
	c := cellOf(t, "cell", "users", "x")
	move := func(n int64, to string) replicator.Applied {
		return apply(t, f.target, put(c, n, replicator.Entry{Key: "s:" + to}))
	}
	members := func(key string, want ...string) {
		t.Helper()
		if got, err := f.rdb.SMembers(t.Context(), "s:"+key).Result(); err != nil || !slices.Equal(got, want) {
			t.Errorf("s:%s holds %v (%v), want %v", key, got, err, want)
		}
	}
	theirs := func(key string) {
		t.Helper()
		if got, err := f.rdb.Get(t.Context(), "s:"+key).Result(); err != nil || got != "theirs" {
			t.Errorf("s:%s is now %q (%v)", key, got, err)
		}
	}
	take := func(key string) {
		if err := f.rdb.Set(t.Context(), "s:"+key, "theirs", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	move(1, "old")
	members("old", "x")
	take("old")
	if a := move(2, "new"); len(a.Rejected) > 0 {
		t.Errorf("rejected for the key that is left: %v", a.Rejected[0].Err)
	}
	theirs("old")
	members("new", "x")
	take("bad")
	if a := move(3, "bad"); len(a.Rejected) != 1 || !strings.Contains(a.Rejected[0].Err.Error(), "string") {
		t.Errorf("rejected: %v", a.Rejected)
	}
	theirs("bad")
	members("new")
	if a := move(4, "new"); len(a.Rejected) > 0 {
		t.Errorf("rejected although the key is free: %v", a.Rejected[0].Err)
	}
	members("new", "x")
}

// Before anything of an entity is written, the sink knows that all of it can be, even if two of its own views have the
// same key.
func TestViewsThatMeetAtAKeyDoNotSpoilEachOther(t *testing.T) {
	f := open(t, view("h", "hash", "k:{k}", "a"), view("s", "index", "k:{k}"), view("z", "ranking", "z:{k}", "n"))
	c := cellOf(t, "cell", "users", "x")
	for n := range int64(2) { // the second time is the retry of a dead letter
		a := apply(t, f.target, replicator.Op{Cell: c, Version: 1, Order: n + 1, Values: []replicator.Value{
			{View: 0, Entries: []replicator.Entry{{Key: "k:x", Fields: []any{"1"}}}},
			{View: 1, Entries: []replicator.Entry{{Key: "k:x"}}},
			{View: 2, Entries: []replicator.Entry{{Key: "z:x", Fields: []any{int64(2)}}}},
		}})
		if len(a.Rejected) != 1 || a.Rejected[0].View != 1 || !strings.Contains(a.Rejected[0].Err.Error(), "hash") {
			t.Fatalf("rejected: %v", a.Rejected)
		}
		if got, err := f.rdb.HGetAll(t.Context(), "k:x").Result(); err != nil || got["a"] != "1" {
			t.Errorf("the hash holds %v (%v)", got, err)
		}
		if got, err := f.rdb.ZScore(t.Context(), "z:x", "x").Result(); err != nil || got != 2 {
			t.Errorf("the score is %v (%v), want 2", got, err)
		}
	}
}

// If one of an entity's changes is impossible, the script undoes the earlier ones. Other entities of the call are
// applied.
func TestAnEntityIsAppliedWholeOrNotAtAll(t *testing.T) {
	f := open(t, view("h", "hash", "h:{k}", "a"), view("s", "index", "s:{a}"))
	target := f.target.(*Target)
	op := func(key, value string, n int64) replicator.Op {
		return replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: n, Order: n, Values: []replicator.Value{
			{View: 0, Entries: []replicator.Entry{{Key: "h:" + key, Fields: []any{value}}}},
			{View: 1, Entries: []replicator.Entry{{Key: "s:" + value}}},
		}}
	}
	apply(t, f.target, op("x", "old", 1), op("y", "old", 1))
	before := f.cli(t, "get", recordKey("x"))
	f.cli(t, "set", "h:x", "theirs")

	ops := []replicator.Op{op("x", "new", 2), op("y", "new", 2)}
	b := target.newBatch(ops)
	entities := b.list
	if err := target.read(t.Context(), entities); err != nil {
		t.Fatal(err)
	}
	for _, e := range entities {
		if err := e.decide(b); err != nil {
			t.Fatal(err)
		}
	}
	again, err := f.sink.write(t.Context(), b, entities)
	if err != nil || len(again) != 1 || !again[entities[0]] {
		t.Fatalf("again: %v (%v), want x", again, err)
	}
	for key, want := range map[string]string{"s:old": "x", "s:new": "y"} {
		if got := f.cli(t, "smembers", key); got != want {
			t.Errorf("%s holds %q, want %q", key, got, want)
		}
	}
	if got := f.cli(t, "get", recordKey("x")); got != before {
		t.Errorf("the record of x is %q, was %q", got, before)
	}
	if got := f.cli(t, "hget", "h:y", "a"); got != "new" {
		t.Errorf("y shows %q", got)
	}
}
