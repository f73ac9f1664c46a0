package pipeline

import (
	"sync"
	"sync/atomic"
	"time"
)

// meter counts a run's applied changes, by view, and computes rates per second. Counts are atomics; a mutex guards the
// rates.
type meter struct {
	applied  []atomic.Int64
	interval time.Duration

	mu     sync.Mutex // guards the fields below: the counts at the last tick, and rates over the last few ticks
	at     time.Time
	counts []int64
	rates  []float64
}

func newMeter(views int, interval time.Duration) *meter {
	return &meter{
		applied: make([]atomic.Int64, views), interval: interval,
		counts: make([]int64, views), rates: make([]float64, views),
	}
}

func (m *meter) add(i, n int) { m.applied[i].Add(int64(n)) }

func (m *meter) total() (n int64) {
	for i := range m.applied {
		n += m.applied[i].Load()
	}
	return n
}

func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	seconds := now.Sub(m.at).Seconds()
	for i := range m.applied {
		n := m.applied[i].Load()
		if !m.at.IsZero() && seconds > 0 {
			m.rates[i] = 0.5*m.rates[i] + 0.5*float64(n-m.counts[i])/seconds
			if m.rates[i] < 0.01 {
				m.rates[i] = 0
			}
		}
		m.counts[i] = n
	}
	m.at = now
}

// rate is the i-th view's rate. It is 0 if the last tick was long ago: while a save hangs, no tick updates the rate.
func (m *meter) rate(i int) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > max(5*time.Second, 3*m.interval) {
		return 0
	}
	return m.rates[i]
}
