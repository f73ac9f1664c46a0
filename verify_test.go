package replicator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
	"replicator/verify"
)

// verifyView verifies a view of a pipeline that runs.
func verifyView(t *testing.T, p *started, f *fakeSource, sink *sinktest.Reference, name string, repair bool) verify.Result {
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
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
			f.single = seed%2 == 1
			history(f, r, 60)
			p := start(newPipeline(f, sink, store, "a"))
			p.caughtUp(t, f)
			planted := map[int64]replicator.DifferenceKind{100: replicator.Extra, 101: replicator.Extra}
			sink.Corrupt("", "a", fakeCell(100), []replicator.Entry{{Fields: []any{"extra"}}})
			sink.Corrupt("", "a", fakeCell(101), []replicator.Entry{{Fields: []any{"extra"}}})
			f.commit(fakeChange{replicator.Insert, fakeRow{key: 200, version: 1, body: "x"}}, fakeChange{replicator.Insert, fakeRow{key: 201, version: 1, body: "y"}})
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
				found[d.Key] = d.Kind
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
			if again := verifyView(t, p, f, sink, "a", false); seed%3 == 0 && again.Remaining() != 0 {
				t.Errorf("seed %d: after a repair: %+v", seed, again)
			}
			p.stopped(t)
		})
	}
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
		if err != nil || runs < 5 || result.Checked != cells || result.Missing != 1 || result.Stale != 1 || result.Extra != 1 {
			t.Errorf("after %d runs: %v, %+v", runs, err, result)
		}
		if again, err := verify.Run(t.Context(), verify.Options{View: v, Reader: reader, Target: target,
			Evaluator: bodyEvaluator{[]*replicator.View{v}}, Resume: &place}); err != nil || again.Checked != cells || again.Remaining() != 3 {
			t.Errorf("another one: %v, %+v", err, again)
		}
	})
}
