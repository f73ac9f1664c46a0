package pipeline

import "time"

// rates are changes applied a second, over the last few ticks.
type rates struct {
	at     time.Time
	counts []int64
	values []float64
}

// tick updates the rates; it is called about once a second.
func (r *run) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	t := &r.rates
	if t.counts == nil {
		t.counts, t.values = make([]int64, len(r.views)), make([]float64, len(r.views))
	}
	seconds := now.Sub(t.at).Seconds()
	for i := range r.views {
		n := r.applied[i].Load()
		if !t.at.IsZero() && seconds > 0 {
			t.values[i] = 0.5*t.values[i] + 0.5*float64(n-t.counts[i])/seconds
			if t.values[i] < 0.01 {
				t.values[i] = 0
			}
		}
		t.counts[i] = n
	}
	t.at = now
}

// rate is that of the i-th view: nothing if no tick came for so long that what is saved must hang. The caller holds
// r.mu.
func (r *run) rate(i int) float64 {
	if r.rates.values == nil || time.Since(r.rates.at) > max(5*time.Second, 3*r.pipeline.Interval) {
		return 0
	}
	return r.rates.values[i]
}
