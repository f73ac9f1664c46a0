package pipeline_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

func TestADefinitionIsTheFilesAndItsTables(t *testing.T) {
	v := &replicator.View{From: []replicator.Feed{{Table: "a", Column: "x"}, {Table: "b"},
		{Table: "a"}}, Fingerprint: "f00d"}
	on := func(a, b string) string { return replicator.DefinedOn(v, map[string]string{"a": a, "b": b}) }
	both := on("p text", "n integer")
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"the same":               {both, on("p text", "n integer"), true},
		"the file's alone":       {both, "f00d", true},
		"a table that is gone":   {both, on("p text", ""), true},
		"other versions":         {both, on("n text", "n integer"), false},
		"other cells":            {both, on("p integer", "n integer"), false},
		"the other table":        {both, on("p text", "n text"), false},
		"another file's":         {both, "beef", false},
		"another file's, on it":  {both, "beef" + strings.TrimPrefix(both, "f00d"), false},
		"a fingerprint on a new": {on("p text", "n text"), both, false},
	} {
		if got := replicator.SameDefinition(c.a, c.b); got != c.same || replicator.SameDefinition(c.b, c.a) != got {
			t.Errorf("%s: %s and %s are the same: %t", name, c.a, c.b, got)
		}
	}
	v.Fingerprint = both
	if got := on("p text", "n integer"); got != both {
		t.Errorf("it grows: %s, then %s", both, got)
	}
}

// A table whose unique key is dropped has other versions: whatever is put then is older than what stood there, or
// newer, by accident. The views that read it stop, live and at the next start, and say why; the others go on.
func TestATableThatBecomesAnotherStopsTheViewsThatReadIt(t *testing.T) {
	for _, kept := range []string{"p text", "n text"} {
		synctest.Test(t, func(t *testing.T) {
			f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
			f.cells, f.single = kept, kept[0] == 'p'
			other := map[string]string{"p text": "n text", "n text": "p text"}[kept]
			begin := func() *started {
				p := newPipeline(f, sink, store, "a")
				p.Views = append(p.Views, otherView("b"))
				return start(p)
			}
			row := func(n int64, body string) fakeChange { return fakeChange{replicator.Insert, fakeRow{1, n, body}} }
			f.commit(row(5, "five"))
			p := begin()
			p.caughtUp(t, f)
			f.alter(other)
			f.commit(row(3, "three"))
			for range 2 {
				time.Sleep(time.Minute)
				status := p.Status(nil)
				if st := status[0]; st.State != replicator.StateFailed || !strings.Contains(st.Error, "unique key") {
					t.Errorf("view a is %s (%s)", st.State, st.Error)
				}
				if status[1].State != replicator.StateRunning {
					t.Errorf("view b is %s (%s)", status[1].State, status[1].Error)
				}
				if held := sink.Read(fakeView("a")); len(held) != 1 || !strings.Contains(firstOf(held), "five") {
					t.Errorf("something was written: %v", held)
				}
				p.stopped(t)
				p = begin()
			}
			time.Sleep(time.Second)
			if err := p.Rebuild(t.Context(), []string{"a"}, pipeline.BySwap, ""); err != nil {
				t.Fatal(err)
			}
			p.sometimeCaughtUp(t, f)
			f.commit(row(9, "nine"))
			p.caughtUp(t, f)
			p.stopped(t)
			holds(t, f, sink, "a")
		})
	}
}

// sometimeCaughtUp is caughtUp where views that are to be rebuilt have failed until then.
func (s *started) sometimeCaughtUp(t *testing.T, f *fakeSource) {
	f.mu.Lock()
	fence := strconv.Itoa(len(f.log))
	f.mu.Unlock()
	var err error
	for range 3600 {
		if err = s.Wait(t.Context(), fence, nil); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal(err)
}

func firstOf(m map[string]string) string {
	for k, v := range m {
		return k + v
	}
	return ""
}

// With on_change = "rebuild" nobody has to act, whenever the table is altered: also while the view is filled, or
// rebuilt.
func TestATableThatBecomesAnotherHasItsViewsRebuilt(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
			f.cells = "n text"
			var used replicator.Sink = sink
			if seed%2 == 0 {
				used = &failingSwaps{Reference: sink}
			}
			begin := func() *started {
				p := newPipeline(f, used, store, "a", "c")
				p.Views = append(p.Views, otherView("b"))
				for _, v := range p.Views {
					v.OnChange = "rebuild"
				}
				return start(p)
			}
			history(f, r, 20)
			p := begin()
			for _, cells := range []string{"p text", "p integer", "n integer"} {
				switch r.IntN(3) {
				case 0:
					p.sometimeCaughtUp(t, f)
				case 1:
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				}
				if r.IntN(3) == 0 {
					p.crash()
					<-p.done
					p.stop()
					f.alter(cells)
					p = begin()
				} else {
					f.alter(cells)
				}
				if f.single {
					f.commit(fakeChange{replicator.Insert, fakeRow{3, 1, "again"}})
				} else {
					history(f, r, 5)
				}
			}
			p.sometimeCaughtUp(t, f)
			history(f, r, 5)
			p.caughtUp(t, f)
			p.stopped(t)
			holds(t, f, sink, "a")
			holds(t, f, sink, "c")
		})
	}
}
