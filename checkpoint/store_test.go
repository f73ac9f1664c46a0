package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// store has the functions that open a store for a test: for writing (again after a Close), by a second replicator, and
// for reading.
type store struct {
	open  func(t testing.TB) replicator.Store
	other func() (replicator.Store, error) // a second replicator
	read  func() (Reader, error)
}

func fileStore(t testing.TB) store {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() (replicator.Store, error) { return asStore(OpenFile(dir)) }
	return store{
		open:  func(t testing.TB) replicator.Store { return must(t, open) },
		other: open,
		read:  func() (Reader, error) { return ReadFile(dir) },
	}
}

func mysqlStore(t testing.TB, s *servers.Server) store {
	dsn := s.DSN(servertest.Database(t, s))
	open := func() (replicator.Store, error) { return asStore(OpenMySQL(context.Background(), dsn, "replicator")) }
	return store{
		open:  func(t testing.TB) replicator.Store { return must(t, open) },
		other: open,
		read:  func() (Reader, error) { return ReadMySQL(context.Background(), dsn, "replicator") },
	}
}

// asStore returns a nil Store if there is an error. A nil pointer in the interface would not be nil.
func asStore[S replicator.Store](s S, err error) (replicator.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func must(t testing.TB, open func() (replicator.Store, error)) replicator.Store {
	t.Helper()
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) { testStore(t, fileStore) }

func TestMySQL(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		testStore(t, func(t testing.TB) store { return mysqlStore(t, s) })
	})
}

// testStore tests what every store must do.
func testStore(t *testing.T, create func(t testing.TB) store) {
	for name, test := range map[string]func(*testing.T, store){
		"KeepsCheckpoints":        keepsCheckpoints,
		"TellsEmptyFillFromNone":  tellsEmptyFillFromNone,
		"KeepsDeadLetters":        keepsDeadLetters,
		"KeepsLayouts":            keepsLayouts,
		"RaisesAndDrops":          raisesAndDrops,
		"TellsSourcesApart":       tellsSourcesApart,
		"RemovesWhatWasLookedAt":  removesWhatWasLookedAt,
		"BuriesManyAtOnce":        buriesManyAtOnce,
		"LetsOneReplicatorWrite":  letsOneReplicatorWrite,
		"ReadsBesideAWriter":      readsBesideAWriter,
		"SaysThatNothingIsThere":  saysThatNothingIsThere,
		"IsSafeForConcurrentUse":  isSafeForConcurrentUse,
		"RefusesWorkAfterClosing": refusesWorkAfterClosing,
	} {
		t.Run(name, func(t *testing.T) { test(t, create(t)) })
	}
}

var ctx = context.Background()

func checkpointOf(view, source string, order int64) replicator.Checkpoint {
	return replicator.Checkpoint{View: view, Source: source, Fingerprint: "f-" + view,
		Shown:    time.Date(2026, 11, 28, 2, 3, 4, 567891234, time.UTC),
		Standing: replicator.Standing{Position: replicator.Position{Order: order, Token: fmt.Sprintf("{\"gtid\":\"%d\"}", order)}}}
}

func letterOf(view string, n int) replicator.DeadLetter {
	key, err := replicator.MakeKey([]byte{0, 1, byte(n), 0xff}, int64(n), "ключ")
	if err != nil {
		panic(err)
	}
	return replicator.DeadLetter{View: view, Source: "shard", Cell: replicator.Cell{Table: "cell", Key: key, Column: "users\x00\xff"},
		Version: 1<<62 + int64(n), Order: int64(n), Position: "binlog.000001:4", Reason: "email: “x” does not fit",
		Raw: []byte{0, 0xff, '\n', byte(n)}, Time: time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)}
}

func keepsCheckpoints(t *testing.T, with store) {
	s := with.open(t)
	if all, err := s.Checkpoints(ctx); err != nil || len(all) != 0 {
		t.Fatalf("a new store has %v, %v", all, err)
	}
	filling := checkpointOf("c", "", 7)
	filling.Fill = map[string]replicator.Progress{"cell": {After: "\x00AB\"ü", Rows: 12, Total: 99}, "done": {Done: true}}
	filling.FillFrom = 6
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("b", "s1", 1), checkpointOf("A", "", 1<<62), checkpointOf("a", "", 2)}))
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("b", "s2", 3), filling, checkpointOf("b", "s1", 4)}))
	check(t, s.Save(ctx, nil))
	want := []replicator.Checkpoint{checkpointOf("A", "", 1<<62), checkpointOf("a", "", 2), checkpointOf("b", "s1", 4), checkpointOf("b", "s2", 3), filling}
	equalCheckpoints(t, s, want)
	check(t, s.Close())
	s = with.open(t)
	equalCheckpoints(t, s, want)
	check(t, s.Forget(ctx, "b"))
	check(t, s.Forget(ctx, "unknown"))
	equalCheckpoints(t, s, []replicator.Checkpoint{want[0], want[1], want[4]})
	bytes := checkpointOf("y", "", 1)
	bytes.Fill = map[string]replicator.Progress{"cell": {After: "\xff"}}
	for _, bad := range []replicator.Checkpoint{{}, bytes} {
		if err := s.Save(ctx, []replicator.Checkpoint{checkpointOf("z", "", 1), bad}); err == nil {
			t.Errorf("a checkpoint that can't come back was saved: %+v", bad)
		}
	}
	equalCheckpoints(t, s, []replicator.Checkpoint{want[0], want[1], want[4]})
}

func equalCheckpoints(t *testing.T, s interface {
	Checkpoints(context.Context) ([]replicator.Checkpoint, error)
}, want []replicator.Checkpoint) {
	t.Helper()
	got, err := s.Checkpoints(ctx)
	check(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d checkpoints, not %d: %v", len(got), len(want), got)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("checkpoint %d is\n%+v\nnot\n%+v", i, got[i], want[i])
		}
	}
}

func tellsEmptyFillFromNone(t *testing.T, with store) {
	s := with.open(t)
	empty := checkpointOf("filling", "", 1)
	empty.Fill = map[string]replicator.Progress{}
	check(t, s.Save(ctx, []replicator.Checkpoint{empty, checkpointOf("tail", "", 1)}))
	check(t, s.Close())
	all, err := with.open(t).Checkpoints(ctx)
	check(t, err)
	if !all[0].Filling() || all[1].Filling() {
		t.Errorf("filling are %v and %v", all[0].Filling(), all[1].Filling())
	}
}

func keepsDeadLetters(t *testing.T, with store) {
	s := with.open(t)
	first, second, third := letterOf("v", 1), letterOf("v", 2), letterOf("w", 1)
	check(t, s.Bury(ctx, []replicator.DeadLetter{first, second, third}))
	ids := equalLetters(t, s, "", first, second, third)
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
		t.Errorf("ids are not distinct: %v", ids)
	}
	again := first
	again.Reason, again.Raw, again.Version = "worse", nil, 9
	check(t, s.Bury(ctx, []replicator.DeadLetter{again}))
	equalLetters(t, s, "v", second, again)
	check(t, s.Close())
	s = with.open(t)
	if now := equalLetters(t, s, "", second, third, again); now[2] != ids[0] || now[1] != ids[2] {
		t.Errorf("ids changed from %v to %v", ids, now)
	}
	equalCount(t, s, "v 2 w 1")
	check(t, s.Bury(ctx, nil))
}

func equalLetters(t *testing.T, s Reader, view string, want ...replicator.DeadLetter) (ids []string) {
	t.Helper()
	got, err := listed(s, view)
	check(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d letters, not %d: %v", len(got), len(want), got)
	}
	for i, d := range got {
		ids = append(ids, d.ID)
		d.ID = ""
		if len(d.Raw) == 0 {
			d.Raw = want[i].Raw
		}
		if !reflect.DeepEqual(d, want[i]) {
			t.Errorf("letter %d is\n%+v\nnot\n%+v", i, d, want[i])
		}
		if len(ids[i]) != 16 {
			t.Errorf("id %q", ids[i])
		}
	}
	return ids
}

func equalCount(t *testing.T, s Reader, want string) {
	t.Helper()
	counts, err := s.Count(ctx)
	check(t, err)
	var parts []string
	for view, n := range counts {
		parts = append(parts, fmt.Sprint(view, " ", n))
	}
	slices.Sort(parts)
	if got := strings.Join(parts, " "); got != want {
		t.Errorf("counts are %s, not %s", got, want)
	}
}

func raisesAndDrops(t *testing.T, with store) {
	s := with.open(t)
	check(t, s.Raise(ctx, "v", "shard", []replicator.Cell{letterOf("v", 1).Cell}))
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1), letterOf("v", 2), letterOf("v", 3), letterOf("w", 1)}))
	check(t, s.Raise(ctx, "v", "shard", []replicator.Cell{letterOf("v", 9).Cell, letterOf("v", 1).Cell, letterOf("v", 1).Cell}))
	ids := equalLetters(t, s, "", letterOf("v", 2), letterOf("v", 3), letterOf("w", 1))
	n, err := s.Drop(ctx, []string{ids[1], ids[1], "ffffffffffffffff", "nonsense", ""})
	check(t, err)
	if n != 1 {
		t.Errorf("dropped %d", n)
	}
	check(t, s.Close())
	s = with.open(t)
	equalLetters(t, s, "", letterOf("v", 2), letterOf("w", 1))
	equalCount(t, s, "v 1 w 1")
	if n, err := s.Drop(ctx, ids); n != 2 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	equalCount(t, s, "")
}

// While an entity moves between two shards, both may have a row of its key. Each shard's letter must be independent of
// the other shard's.
func tellsSourcesApart(t *testing.T, with store) {
	s := with.open(t)
	here, there := letterOf("v", 1), letterOf("v", 1)
	here.Source, there.Source = "a", "b"
	check(t, s.Bury(ctx, []replicator.DeadLetter{here, there}))
	equalLetters(t, s, "", here, there)
	equalCount(t, s, "v 2")
	check(t, s.Raise(ctx, "v", "c", []replicator.Cell{here.Cell}))
	check(t, s.Raise(ctx, "v", "a", []replicator.Cell{here.Cell}))
	check(t, s.Close())
	s = with.open(t)
	equalLetters(t, s, "", there)
	for source, want := range map[string]bool{"a": false, "b": true} {
		if known, err := s.Known(ctx, "v", source, here.Cell); err != nil || known != 0 != want {
			t.Errorf("a letter of source %s is known: %v (%v)", source, known, err)
		}
	}
	check(t, s.Raise(ctx, "v", "b", []replicator.Cell{here.Cell}))
	equalCount(t, s, "")
}

func buriesManyAtOnce(t *testing.T, with store) {
	s := with.open(t)
	const many = 1200
	var letters []replicator.DeadLetter
	var cells []replicator.Cell
	for i := range many {
		d := letterOf("v", i)
		letters, cells = append(letters, d), append(cells, d.Cell)
	}
	check(t, s.Bury(ctx, letters))
	equalCount(t, s, fmt.Sprint("v ", many))
	check(t, s.Raise(ctx, "v", "shard", cells[1:]))
	equalLetters(t, s, "v", letters[0])
}

func letsOneReplicatorWrite(t *testing.T, with store) {
	s := with.open(t)
	if _, err := with.other(); !errors.Is(err, ErrLocked) {
		t.Fatalf("the second one got %v", err)
	} else if !strings.Contains(err.Error(), "pid "+fmt.Sprint(os.Getpid())) && !strings.Contains(err.Error(), "connection ") {
		t.Errorf("the error does not say who holds the lock: %v", err)
	}
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	check(t, s.Close())
	equalCheckpoints(t, with.open(t), []replicator.Checkpoint{checkpointOf("v", "", 1)})
}

func readsBesideAWriter(t *testing.T, with store) {
	s := with.open(t)
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
	r, err := with.read()
	check(t, err)
	equalCheckpoints(t, r, []replicator.Checkpoint{checkpointOf("v", "", 1)})
	equalLetters(t, r, "", letterOf("v", 1))
	equalLetters(t, r, "w")
	equalCount(t, r, "v 1")
	check(t, r.Close())
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 2)})) // the reader did not disturb the writer
}

func saysThatNothingIsThere(t *testing.T, with store) {
	if _, err := with.read(); !errors.Is(err, ErrNoState) {
		t.Errorf("error is %v", err)
	}
}

func isSafeForConcurrentUse(t *testing.T, with store) {
	s := with.open(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			view := fmt.Sprint("v", g)
			for i := range 10 {
				d := letterOf(view, i)
				if err := errors.Join(s.Save(ctx, []replicator.Checkpoint{checkpointOf(view, "", int64(i))}), s.Bury(ctx, []replicator.DeadLetter{d})); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if err := s.Raise(ctx, view, "shard", []replicator.Cell{d.Cell}); err != nil {
						t.Error(err)
					}
				}
				if _, err := listed(s, view); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equalCount(t, s, "v0 5 v1 5 v2 5 v3 5")
	check(t, s.Close())
	s = with.open(t)
	equalCount(t, s, "v0 5 v1 5 v2 5 v3 5")
	equalCheckpoints(t, s, []replicator.Checkpoint{checkpointOf("v0", "", 9), checkpointOf("v1", "", 9), checkpointOf("v2", "", 9), checkpointOf("v3", "", 9)})
}

func refusesWorkAfterClosing(t *testing.T, with store) {
	s := with.open(t)
	check(t, s.Close())
	_, lists := listed(s, "")
	_, had := s.Checkpoints(ctx)
	for _, err := range []error{lists, had, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}),
		s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}), s.Forget(ctx, "v")} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("error is %v", err)
		}
	}
	check(t, s.Close())
}

// listed returns all dead letters of a view.
func listed(s Reader, view string) ([]replicator.DeadLetter, error) {
	return collect(s.List(ctx, view))
}

func collect(all iter.Seq2[replicator.DeadLetter, error]) (letters []replicator.DeadLetter, err error) {
	for l, err := range all {
		if err != nil {
			return letters, err
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// RaiseKnown removes the letter whose number the caller has read, and not a later letter of the same cell.
func removesWhatWasLookedAt(t *testing.T, with store) {
	s := with.open(t)
	first, later := letterOf("v", 1), letterOf("v", 1)
	later.Version++
	number := func() int64 {
		t.Helper()
		n, err := s.Known(ctx, "v", first.Source, first.Cell)
		check(t, err)
		return n
	}
	if number() != 0 {
		t.Error("a letter is known before there is one")
	}
	check(t, s.Bury(ctx, []replicator.DeadLetter{first}))
	old := number()
	check(t, s.Bury(ctx, []replicator.DeadLetter{later}))
	check(t, s.RaiseKnown(ctx, "v", first.Source, first.Cell, old))
	equalLetters(t, s, "v", later)
	check(t, s.RaiseKnown(ctx, "v", first.Source, first.Cell, number()))
	check(t, s.RaiseKnown(ctx, "v", first.Source, first.Cell, number()))
	equalCount(t, s, "")
	check(t, s.Close())
	equalCount(t, with.open(t), "")
}
