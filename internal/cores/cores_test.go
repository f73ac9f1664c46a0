//go:build unix

package cores

import (
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestOneProcessorIsUsedWhereLittleIsDoneForAWhile(t *testing.T) {
	quiet := func(n int) []float64 { return slices.Repeat([]float64{0.1}, n) }
	for _, c := range []struct {
		name string
		busy []float64
		want step // of the last
	}{
		{"not yet", quiet(calm - 1), keep},
		{"little for a while", quiet(calm), one},
		{"said once", quiet(calm + 1), keep},
		{"much in between", slices.Concat(quiet(calm-1), []float64{1.2}, quiet(calm-1)), keep},
		{"neither much nor little in between", slices.Concat(quiet(calm-1), []float64{0.5}, quiet(calm-1)), keep},
		{"much at once", slices.Concat(quiet(calm), []float64{0.9}), all},
		{"not so much", slices.Concat(quiet(calm), []float64{0.5}), keep},
		{"little again", slices.Concat(quiet(calm), []float64{0.9}, quiet(calm)), one},
		{"busy from the start", []float64{1.9}, keep},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u use
			var got step
			for _, busy := range c.busy {
				got = u.next(busy)
			}
			if got != c.want {
				t.Errorf("%v, not %v", got, c.want)
			}
		})
	}
}

func TestWhatAProcessUsesIsKnown(t *testing.T) {
	before := cpuTime()
	for cpuTime() == before { // this loop uses CPU time
	}
}

func TestTheProgramRunsOnOneProcessorUntilItIsBusy(t *testing.T) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		t.Skip("there is no choice of processors here")
	}
	before, begin := runtime.GOMAXPROCS(0), time.Now()
	defer runtime.SetDefaultGOMAXPROCS()
	var busy atomic.Bool
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pace(stopped, func() time.Duration {
			if busy.Load() {
				return 2 * time.Since(begin)
			}
			return 0
		})
	}()
	await := func(n int) {
		for runtime.GOMAXPROCS(0) != n {
			time.Sleep(every / 2)
		}
	}
	await(1)
	busy.Store(true)
	await(before)
	close(stopped)
	<-ended
}
