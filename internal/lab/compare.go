package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"replicator/internal/pause"
)

// Held is the actual or expected content of a view: for each key, the content as text. If a view is compared as a set
// of lines, the lines are the keys, and all values are "".
type Held map[string]string

// Lines returns the content of a view that is compared as a set of lines. Each row becomes a line.
func Lines(rows [][]string) Held {
	h := Held{}
	for _, r := range rows {
		h[fmt.Sprintf("%q", r)] = ""
	}
	return h
}

// Differences lists the missing, extra and different entries of a view, a few of each.
func Differences(view string, want, got Held) []string {
	const few = 5
	var out []string
	missing, extra, other := 0, 0, 0
	for _, k := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[k]
		switch {
		case !ok:
			if missing++; missing <= few {
				out = append(out, fmt.Sprintf("%s: missing %s %s", view, k, want[k]))
			}
		case g != want[k]:
			if other++; other <= few {
				out = append(out, fmt.Sprintf("%s: %s is %s, not %s", view, k, g, want[k]))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			if extra++; extra <= few {
				out = append(out, fmt.Sprintf("%s: extra %s %s", view, k, got[k]))
			}
		}
	}
	if n := missing + extra + other; n > len(out) {
		out = append(out, fmt.Sprintf("%s: %d missing, %d different and %d extra in all", view, missing, other, extra))
	}
	return out
}

// Watch reads a value with the function look, repeatedly while do runs and once more after it. The function judge
// checks each value. At the first error of look or judge, Watch fails the test. It returns how many values it read.
func Watch[T any](t testing.TB, look func(context.Context) (T, error), judge func(T) error, do func()) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	looks := 0
	var failed error
	go func() {
		defer close(done)
		for failed == nil {
			last, began := ctx.Err() != nil, time.Now()
			var seen T
			if seen, failed = look(context.WithoutCancel(ctx)); failed == nil {
				looks++
				failed = judge(seen)
			}
			if last {
				return
			}
			// The function `look` may start a client process. The pause leaves the tested program enough CPU time.
			_ = pause.For(ctx, max(5*time.Millisecond, 2*time.Since(began)))
		}
	}()
	do()
	cancel()
	<-done
	if failed != nil {
		t.Errorf("look %d: %v", looks, failed)
	}
	return looks
}
