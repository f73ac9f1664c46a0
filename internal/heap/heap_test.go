package heap

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestTheHeapGrowsByMoreWhereLittleIsInUse(t *testing.T) {
	for _, c := range []struct{ inUse, heap int64 }{
		{0, 0},
		{5 << 20, 25 << 20},
		{14 << 20, 70 << 20},
		{20 << 20, 72 << 20},
		{40 << 20, 72 << 20},
		{60 << 20, 96 << 20},
		{1 << 30, 1<<30 + 6<<30/10},
	} {
		heap := c.inUse + c.inUse*int64(percent(c.inUse))/100
		if d := heap - c.heap; d > 1<<20 || d < -1<<20 {
			t.Errorf("with %d MiB in use the heap grows to %d MiB, not %d", c.inUse>>20, heap>>20, c.heap>>20)
		}
	}
}

// set returns the percentage in force.
func set() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

func TestTheCollectorFollowsWhatIsInUse(t *testing.T) {
	before := set()
	stop := Pace()
	if p := set(); p != most {
		t.Errorf("the heap grows by %d %% at first", p)
	}
	await := func(what string, is func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Minute); !is(set()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: the heap grows by %d %%", what, set())
			}
		}
	}
	held := make([]byte, 100<<20)
	await("much is in use", func(p int) bool { return p == least })
	runtime.KeepAlive(held)
	held = nil
	await("little is in use", func(p int) bool { return p > 3*least })
	if stop(); set() != before {
		t.Errorf("after the end the heap grows by %d %%, not by %d as before", set(), before)
	}
}
