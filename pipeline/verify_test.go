package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
	"replicator/verify"
)

// verifyView verifies a view of a running pipeline.
func verifyView(t *testing.T, p *started, f *fakeSource, sink *sinktest.Reference, name string,
	repair bool) verify.Result {
	t.Helper()
	v := fakeView(name)
	target, err := sink.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := f.Latest(t.Context(), nil)
	reader, err := f.Open(t.Context(), []replicator.Position{at})
	if err != nil {
		t.Fatal(err)
	}
	result, err := verify.Run(t.Context(), verify.Options{
		View: v, Reader: reader, Target: target, Evaluator: bodyEvaluator{[]*replicator.View{v}}, Repair: repair,
		Fence: func(ctx context.Context) error {
			at, _ := f.Latest(ctx, nil)
			return p.Wait(ctx, strconv.FormatInt(at.Order/1000, 10), []string{name})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestVerifyFindsWhatWasPlantedAndNothingElseUnderALiveWriter(t *testing.T) {
	for seed := range seeds(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
			f.single = seed%2 == 1
			history(f, r, 60)
			p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
			planted := map[int64]replicator.DifferenceKind{100: replicator.Extra, 101: replicator.Extra}
			sink.Corrupt("", "a", fakeCell(100), []replicator.Entry{{Fields: []any{"extra"}}})
			sink.Corrupt("", "a", fakeCell(101), []replicator.Entry{{Fields: []any{"extra"}}})
			f.commit(fakeChange{replicator.Insert, fakeRow{key: 200, version: 1, body: "x"}},
				fakeChange{replicator.Insert, fakeRow{key: 201, version: 1, body: "y"}})
			p.caughtUp(t, f)
			sink.Corrupt("", "a", fakeCell(200), nil)
			sink.Corrupt("", "a", fakeCell(201), []replicator.Entry{{Fields: []any{"stale"}}})
			planted[200], planted[201] = replicator.Missing, replicator.Stale

			writing, stop := context.WithCancel(t.Context())
			written := make(chan struct{})
			go func() {
				defer close(written)
				w := rand.New(rand.NewPCG(seed, 10))
				for writing.Err() == nil {
					history(f, w, 1)
					time.Sleep(time.Duration(w.IntN(5)) * time.Millisecond)
				}
			}()
			result := verifyView(t, p, f, sink, "a", seed%3 == 0)
			stop()
			<-written
			found := map[string]replicator.DifferenceKind{}
			for _, d := range result.Differences {
				if d.Kind != replicator.Dead { // the random history has dead cells, too
					found[d.Key] = d.Kind
				}
			}
			for key, kind := range planted {
				if found[fmt.Sprint(key)] != kind {
					t.Errorf("seed %d: key %d: %q, want %q", seed, key, found[fmt.Sprint(key)], kind)
				}
			}
			if len(found) != len(planted) {
				t.Errorf("seed %d: found %v", seed, found)
			}
			p.caughtUp(t, f)
			if again := verifyView(t, p, f, sink, "a", false); seed%3 == 0 && again.Remaining() != again.Dead {
				t.Errorf("seed %d: after a repair: %+v", seed, again)
			}
			p.stopped(t)
		})
	}
}

// sizedComparer records the largest size of values that one call of Compare got.
type sizedComparer struct {
	replicator.Target
	most int64
}

func (c *sizedComparer) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	size := int64(0)
	for _, op := range ops {
		for _, v := range op.Values {
			size += v.Size()
		}
	}
	c.most = max(c.most, size)
	return c.Target.Compare(ctx, ops)
}

func TestVerifyComparesNoMoreAtOnceThanItHasRoomFor(t *testing.T) {
	f, view := newFakeSource(), fakeView("a")
	for key := range int64(40) {
		f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: strings.Repeat("x", 1<<20)}})
	}
	at, _ := f.Latest(t.Context(), nil)
	reader, _ := f.Open(t.Context(), []replicator.Position{at})
	target, _ := sinktest.NewReference().Open(t.Context(), "", []*replicator.View{view})
	sized := &sizedComparer{Target: target}
	result, err := verify.Run(t.Context(), verify.Options{View: view, Reader: reader, Target: sized,
		Evaluator: bodyEvaluator{[]*replicator.View{view}}})
	if err != nil || result.Checked != 40 || result.Missing != 40 {
		t.Errorf("%+v, %v", result, err)
	}
	if sized.most > 18<<20 {
		t.Errorf("%d MiB were compared at once", sized.most>>20)
	}
}

// Cells that can't be computed and cells that the sink rejects both count as dead, whatever letters the store has.
func TestVerifyCountsDeadLettersAndRepairsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.single = true
		p := start(newPipeline(f, sink, store, "a"))
		for key, body := range []string{"good", unreadable, refused, "good", unreadable, refused} {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: int64(key), version: 1, body: body}})
		}
		p.caughtUp(t, f)
		defer p.stopped(t)
		left := []replicator.Entry{{Fields: []any{"left by hand"}}}
		sink.Corrupt("", "a", fakeCell(3), nil)
		sink.Corrupt("", "a", fakeCell(4), left)
		sink.Corrupt("", "a", fakeCell(5), left)
		for _, c := range []struct {
			repair                                bool
			missing, stale, extra, dead, repaired int64
		}{
			{repair: false, missing: 1, extra: 2, dead: 2},
			{repair: true, missing: 1, extra: 2, dead: 4, repaired: 3},
			{repair: true, dead: 4},
		} {
			r := verifyView(t, p, f, sink, "a", c.repair)
			got := []int64{r.Checked, r.Missing, r.Stale, r.Extra, r.Dead, r.Repaired, r.Remaining()}
			want := []int64{6, c.missing, c.stale, c.extra, c.dead, c.repaired,
				c.missing + c.stale + c.extra - c.repaired + c.dead}
			if !slices.Equal(got, want) {
				t.Errorf("repair %v: checked, missing, stale, extra, dead, repaired and remaining are %v, and not %v", c.repair,
					got, want)
			}
			for _, d := range r.Differences {
				if d.Kind == replicator.Dead && d.Reason == "" {
					t.Errorf("no reason for %+v", d)
				}
			}
		}
	})
}

func TestVerifyGoesOnWhereItWasCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		const cells = 100
		for key := range int64(cells) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "x"}})
		}
		p.caughtUp(t, f)
		sink.Corrupt("", "a", fakeCell(1), nil)
		sink.Corrupt("", "a", fakeCell(50), []replicator.Entry{{Fields: []any{"stale"}}})
		sink.Corrupt("", "a", fakeCell(1000), []replicator.Entry{{Fields: []any{"extra"}}})
		defer p.stopped(t)

		v := fakeView("a")
		target, err := sink.Open(t.Context(), "", []*replicator.View{v})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := f.Latest(t.Context(), nil)
		reader, err := f.Open(t.Context(), []replicator.Position{at})
		if err != nil {
			t.Fatal(err)
		}
		var place verify.Place
		cut := errors.New("cut short")
		pages, runs := 0, 0
		var result verify.Result
		for err = cut; errors.Is(err, cut) && runs < 100; runs++ {
			result, err = verify.Run(t.Context(), verify.Options{
				View: v, Reader: reader, Target: target, Evaluator: bodyEvaluator{[]*replicator.View{v}}, Rate: 40, Resume: &place,
				Continue: func() error {
					if pages++; pages%4 == 0 {
						return cut
					}
					return nil
				},
			})
		}
		if err != nil || runs < 5 || result.Checked != cells || result.Missing != 1 ||
			result.Stale != 1 || result.Extra != 1 {
			t.Errorf("after %d runs: %v, %+v", runs, err, result)
		}
		if again, err := verify.Run(t.Context(), verify.Options{View: v, Reader: reader, Target: target,
			Evaluator: bodyEvaluator{[]*replicator.View{v}}, Resume: &place}); err != nil || again.Checked != cells ||
			again.Remaining() != 3 {
			t.Errorf("another one: %v, %+v", err, again)
		}
	})
}

// failingTarget refuses the first call of Apply.
type failingTarget struct {
	replicator.Target
	refusal error
}

func (t *failingTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if err := t.refusal; err != nil {
		t.refusal = nil
		return replicator.Applied{}, err
	}
	return t.Target.Apply(ctx, ops)
}

// If a repair fails to write a cell, the run that continues from there must repair and count it.
func TestARepairThatFailedIsTriedAgainByTheRunThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
		p.caughtUp(t, f)
		defer p.stopped(t)
		sink.Corrupt("", "a", fakeCell(1), nil)

		v := fakeView("a")
		target, err := sink.Open(t.Context(), "", []*replicator.View{v})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := f.Latest(t.Context(), nil)
		reader, err := f.Open(t.Context(), []replicator.Position{at})
		if err != nil {
			t.Fatal(err)
		}
		refusal := errors.New("the sink is away")
		var place verify.Place
		options := verify.Options{View: v, Reader: reader, Target: &failingTarget{target, refusal},
			Evaluator: bodyEvaluator{[]*replicator.View{v}}, Repair: true, Resume: &place}
		if _, err := verify.Run(t.Context(), options); !errors.Is(err, refusal) {
			t.Fatalf("the repair succeeded: %v", err)
		}
		if r, err := verify.Run(t.Context(), options); err != nil || r.Missing != 1 || r.Repaired != 1 {
			t.Errorf("the run that went on found %+v: %v", r, err)
		}
		holds(t, f, sink, "a")
	})
}

// Progress must have an estimate of the number of cells if it is known. The number of a table's rows is an estimate
// only if each row is a cell.
func TestVerifySaysHowFarItIsAndWithWhat(t *testing.T) {
	f, view, sink := newFakeSource(), fakeView("a"), sinktest.NewReference()
	f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
	at, _ := f.Latest(t.Context(), nil)
	reader, _ := f.Open(t.Context(), []replicator.Position{at})
	target, _ := sink.Open(t.Context(), "", []*replicator.View{view})
	table := view.From[0].Table
	for _, c := range []struct {
		name   string
		table  replicator.Table
		sample float64
		first  int64 // the estimate of the first pass; that of fakeReader is always 10
		second int64
	}{
		{"plain rows", replicator.Table{Name: table}, 0, 10, 1},
		{"cells with versions", replicator.Table{Name: table, Column: "c", Version: "v"}, 0, 0, 1},
		{"a sample", replicator.Table{Name: table}, 0.999999, 0, 0},
	} {
		var said []verify.Progress
		_, err := verify.Run(t.Context(), verify.Options{View: view, Tables: []replicator.Table{c.table}, Reader: reader,
			Target: target, Evaluator: bodyEvaluator{[]*replicator.View{view}}, Sample: c.sample,
			Progress: func(p verify.Progress) { said = append(said, p) }})
		if err != nil || len(said) < 2 || said[0].Doing != "table "+table || said[0].Cells != 1 ||
			said[0].Estimate != c.first || said[1].Doing != "the sink's contents" || said[1].Estimate != c.second {
			t.Errorf("%s: %+v, %v", c.name, said, err)
		}
	}
}
