package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
)

func TestLossShowsInTheMarks(t *testing.T) {
	v := view("s", "index", "s:{a}")
	at := func(order int64) replicator.Position { return replicator.Position{Order: order, Token: "x"} }
	for name, lose := range map[string]func(t *testing.T, f *fixture){
		"FLUSHALL": func(t *testing.T, f *fixture) { f.cli(t, "FLUSHALL") },
		"a restart without its data": func(t *testing.T, f *fixture) {
			if err := f.server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := f.server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			wait(t, "the server answers", func() error { return f.sink.rdb.Ping(t.Context()).Err() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, v)
			if err := f.target.Mark(t.Context(), replicator.Standing{Position: at(10)}); err != nil {
				t.Fatal(err)
			}
			lose(t, f)
			err := f.target.Mark(t.Context(), replicator.Standing{Position: at(11)})
			if !errors.Is(err, replicator.ErrSinkLost) {
				t.Errorf("Mark returns %v, want that data was lost", err)
			}
		})
	}
}

// Generations are made of the time, and clocks differ. So the generation of a forgotten view must stay known.
func TestAViewIsForgottenAlsoWhereTheClockWasAhead(t *testing.T) {
	v := view("c", "counter", "c:{a}", "n")
	f := open(t, v)
	ahead := opened(v.Fingerprint, uint64(time.Now().Add(time.Hour).UnixMilli()))
	if err := f.rdb.HSet(t.Context(), f.sink.markKeys("")[0], v.Name, ahead.encode()).Err(); err != nil {
		t.Fatal(err)
	}
	cell, five := cellOf(t, "cell", "users", "a"), replicator.Entry{Key: "c", Fields: []any{int64(5)}}
	apply(t, f.open(t, v), put(cell, 10, five))
	if err := f.sink.Forget(t.Context(), v.Name); err != nil {
		t.Fatal(err)
	}
	if marks, err := f.sink.Marks(t.Context(), ""); err != nil || len(marks) > 0 {
		t.Errorf("after it was forgotten there are marks: %v, %v", marks, err)
	}
	apply(t, f.open(t, v), put(cell, 3, five))
	if got := f.cli(t, "GET", "c"); got != "5" {
		t.Errorf("the counter shows %s, want 5", got)
	}
}

// The generation after the stored one is then the next number, not the time. What the earlier definition contributed
// must still count as older than it.
func TestAnEarlierDefinitionIsTakenBackAlsoWhereTheClockWasAhead(t *testing.T) {
	v := view("c", "counter", "c:{a}", "n")
	f := open(t, v)
	ahead := opened(v.Fingerprint, uint64(time.Now().Add(time.Hour).UnixMilli()))
	if err := f.rdb.HSet(t.Context(), f.sink.markKeys("")[0], v.Name, ahead.encode()).Err(); err != nil {
		t.Fatal(err)
	}
	cell, five := cellOf(t, "cell", "users", "a"), replicator.Entry{Key: "c", Fields: []any{int64(5)}}
	apply(t, f.open(t, v), put(cell, 10, five))
	redefined := *v
	redefined.Fingerprint, redefined.From = "2", []replicator.Feed{{Table: "other"}}
	if err := f.open(t, &redefined).(replicator.Relinquisher).Relinquish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.cli(t, "GET", "c"); got != "" {
		t.Errorf("the counter shows %s of a cell that no longer feeds it", got)
	}
}

// An open target has an earlier generation than a view that was forgotten or redefined since.
func TestATargetOfAnEarlierGenerationWritesNothing(t *testing.T) {
	v := view("c", "counter", "c:{a}", "n")
	f := open(t, v)
	cell, five := cellOf(t, "cell", "users", "a"), replicator.Entry{Key: "c", Fields: []any{int64(5)}}
	apply(t, f.target, put(cell, 10, five))
	redefined := *v
	redefined.Fingerprint = "2"
	apply(t, f.open(t, &redefined), put(cell, 3, five))
	if _, err := f.target.Apply(t.Context(), []replicator.Op{put(cell, 11, five)}); err == nil {
		t.Error("a target of the earlier generation goes on writing")
	}
	if got := f.cli(t, "GET", "c"); got != "5" {
		t.Errorf("the counter shows %s, want 5", got)
	}
}

// A batch in flight may write records after the marks were lost, and a clock may be set back. Then the next generation
// is below that of the records. According to the marks, no process has the records' generation.
func TestARecordOfAGenerationThatNobodyIsOf(t *testing.T) {
	v := view("c", "counter", "c:{a}", "n")
	f := open(t, v)
	cell := cellOf(t, "cell", "users", "a")
	amount := func(n int64) replicator.Entry { return replicator.Entry{Key: "c", Fields: []any{n}} }
	apply(t, f.target, put(cell, 10, amount(5)))
	earlier := opened(v.Fingerprint, f.target.(*Target).keepers[0].generation-1000)
	if err := f.rdb.HSet(t.Context(), f.sink.markKeys("")[0], v.Name, earlier.encode()).Err(); err != nil {
		t.Fatal(err)
	}
	target := f.open(t, v)
	apply(t, target, put(cell, 3, amount(7)))
	apply(t, target, put(cell, 4, amount(8)))
	if got := f.cli(t, "GET", "c"); got != "8" {
		t.Errorf("the counter shows %s, want 8", got)
	}
}

// TestAFailoverThatLostWrites makes a replica take over that had stopped following. The marks show what it lacks, and
// applying from there makes it right.
func TestAFailoverThatLostWrites(t *testing.T) {
	v := view("c", "counter", "c:{a}", "n")
	f := open(t, v)
	replica := servertest.Own(t, servers.Redis7)
	rdb := client(t, replica)
	host, port, err := net.SplitHostPort(f.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the replica follows", func() error {
		text, err := rdb.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(text, "master_link_status:up") {
			err = errors.New(text)
		}
		return err
	})
	f.target = f.open(t, v) // master_replid changes when the first replica connects
	ops := func(n int64) []replicator.Op {
		var ops []replicator.Op
		for i := range int64(20) {
			ops = append(ops, put(cellOf(t, "cell", "users", i), n,
				replicator.Entry{Key: fmt.Sprint("c:", (i+n)%3), Fields: []any{n + i}}))
		}
		return ops
	}
	step := func(target replicator.Target, n int64) {
		t.Helper()
		apply(t, target, ops(n)...)
		at := replicator.Standing{Position: replicator.Position{Order: n, Token: "x"}}
		if err := target.Mark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	for n := int64(1); n <= 5; n++ {
		step(f.target, n)
	}
	wait(t, "the replica has got everything", func() error {
		var a storedMark
		raw, err := rdb.HGet(t.Context(), marksPrefix, "c").Bytes()
		if err == nil {
			err = json.Unmarshal(raw, &a)
		}
		if err == nil && a.Order != 5 {
			err = fmt.Errorf("it stands at %d", a.Order)
		}
		return err
	})
	if err := rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	for n := int64(6); n <= 9; n++ {
		step(f.target, n)
	}
	want := [3]string{}
	for i := range want {
		want[i] = f.cli(t, "GET", fmt.Sprint("c:", i))
	}
	if err := f.server.Kill(); err != nil {
		t.Fatal(err)
	}
	next := newSink(t, Config{URLs: []string{replica.DSN("0")}})
	defer func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}()
	marks, err := next.Marks(t.Context(), "")
	if err != nil || len(marks) != 1 || marks[0].Position.Order != 5 {
		t.Fatalf("the replica's marks are %v (%v), want one at 5", marks, err)
	}
	target, err := next.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{4, 5, 6, 7, 8, 9} { // beginning before the mark, as after a crash
		apply(t, target, ops(n)...)
	}
	for i := range want {
		if got := rdb.Get(t.Context(), fmt.Sprint("c:", i)).Val(); got != want[i] {
			t.Errorf("counter %d shows %s, want %s", i, got, want[i])
		}
	}
}

// A replica takes over between two batches. It has the newest mark, and lacks what was written after it. No connection
// is in use, so nothing fails, and the mark did not fall.
func TestWhatWasLostBehindTheNewestMarkIsNotMarked(t *testing.T) {
	at := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "x"}}
	}
	v := view("c", "counter", "c", "n")
	cell := func(i int64) replicator.Op {
		return put(cellOf(t, "cell", "users", i), 1, replicator.Entry{Key: "c", Fields: []any{int64(1)}})
	}
	for name, c := range map[string]struct {
		lose  func(t *testing.T, f *fixture)
		fails bool // the next mark fails
	}{
		"nothing happened": {func(*testing.T, *fixture) {}, false},
		"it was restarted without what came last": {func(t *testing.T, f *fixture) {
			f.cli(t, "SAVE")
			apply(t, f.target, cell(2))
			kill(t, f)
		}, true},
		"it was restarted where nothing was written since": {func(t *testing.T, f *fixture) {
			apply(t, f.target, cell(2))
			if err := f.target.Mark(t.Context(), at(20)); err != nil {
				t.Fatal(err)
			}
			f.cli(t, "SAVE")
			kill(t, f)
		}, false},
		"a replica took over": {func(t *testing.T, f *fixture) {
			apply(t, f.target, cell(2))
			// As if a replica had taken over the address: the data is the same, but the master_replid is another.
			f.cli(t, "REPLICAOF", "127.0.0.1", "1")
			f.cli(t, "REPLICAOF", "NO", "ONE")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, v)
			apply(t, f.target, cell(1))
			if err := f.target.Mark(t.Context(), at(10)); err != nil {
				t.Fatal(err)
			}
			c.lose(t, f)
			for range 2 { // a second try gives the same result
				err := f.target.Mark(t.Context(), at(30))
				if errors.Is(err, judge.ErrOtherServer) != c.fails || err != nil && !c.fails {
					t.Errorf("Mark returns %v", err)
				}
			}
			next := f.open(t, v) // as the next session does, which begins at the mark
			if err := next.Mark(t.Context(), at(40)); err != nil {
				t.Errorf("a target that was opened since marks nothing: %v", err)
			}
		})
	}
}

// kill kills a server and restarts it with the data that it saved.
func kill(t *testing.T, f *fixture) {
	t.Helper()
	if err := f.server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := f.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, "the server answers", func() error { return f.sink.rdb.Ping(t.Context()).Err() })
}
