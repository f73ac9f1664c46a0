package server

import (
	"math"
	"sync"
	"time"

	"replicator"
)

// The history covers one hour, so that an operator can see how a problem began.
const (
	historySpan   = time.Hour
	historyStep   = 15 * time.Second
	historyLength = int(historySpan / historyStep)
	lookEvery     = 5 * time.Second // the interval at which views are observed when no requests arrive
)

// history remembers the lag, the rate and the errors of views over the last hour, in a fixed amount of memory for each
// view. mu guards the map and its values.
type history struct {
	mu    sync.Mutex
	views map[viewKey]*past
}

// viewKey identifies the part of a view that one shard of the source feeds.
type viewKey struct{ view, source string }

type past struct {
	step      int64 // number of the time step that the newest values belong to
	lag, rate [historyLength]float32

	error     string
	since     time.Time
	lastError *replicator.PastError

	filling     bool
	fillBegan   time.Time // when the fill was first observed, or when its progress last decreased
	fillAt      float64   // the share of the fill that was done at fillBegan
	fillReached float64   // the share of the fill that was done at the last observation
}

func newHistory() *history { return &history{views: map[viewKey]*past{}} }

// record adds the views' current status to the history, and sets their ErrorSince, LastError and ETA.
func (h *history) record(now time.Time, views []replicator.ViewStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	listed := map[viewKey]bool{}
	for i := range views {
		key := viewKey{views[i].View, views[i].Source}
		p := h.views[key]
		if p == nil {
			p = newPast(now)
			h.views[key] = p
		}
		listed[key] = true
		p.record(now, &views[i])
	}
	for key := range h.views {
		if !listed[key] {
			delete(h.views, key)
		}
	}
}

func stepOf(at time.Time) int64 { return at.UnixNano() / int64(historyStep) }

func newPast(now time.Time) *past {
	p := &past{step: stepOf(now)}
	for i := range p.lag {
		p.lag[i], p.rate[i] = unknown(), unknown()
	}
	return p
}

func unknown() float32 { return float32(math.NaN()) }

// record adds the view's current status to the history. Of the lags in one time step, the history keeps the highest, so
// that short peaks stay visible.
func (p *past) record(now time.Time, v *replicator.ViewStatus) {
	step := stepOf(now)
	for ; p.step < step; p.step++ {
		at := (p.step + 1) % int64(historyLength)
		p.lag[at], p.rate[at] = unknown(), unknown()
		if step-p.step > int64(historyLength) { // all remembered values are too old, so skip the steps between
			p.step = step - int64(historyLength)
		}
	}
	at := p.step % int64(historyLength)
	if v.LagSeconds != nil {
		if lag := float32(*v.LagSeconds); !(lag < p.lag[at]) {
			p.lag[at] = lag
		}
	}
	p.rate[at] = float32(v.Rate)
	p.recordError(now, v)
	p.recordFill(now, v)
}

func (p *past) recordError(now time.Time, v *replicator.ViewStatus) {
	switch {
	case v.Error != "" && p.error == "":
		p.since = now
	case v.Error == "" && p.error != "":
		p.lastError = &replicator.PastError{Error: p.error, Since: p.since.UTC(), Until: now.UTC()}
	}
	if p.error = v.Error; p.error != "" {
		v.ErrorSince = p.since.UTC()
	}
	v.LastError = p.lastError
}

// recordFill sets the view's ETA, the estimated time until its fill is done.
func (p *past) recordFill(now time.Time, v *replicator.ViewStatus) {
	filling := v.State == replicator.StateFilling || v.State == replicator.StateRebuilding
	if !filling {
		p.filling = false
		return
	}
	if !p.filling || v.Progress < p.fillReached { // a fill begins, or the same fill begins again
		p.filling, p.fillBegan, p.fillAt = true, now, v.Progress
	}
	p.fillReached = v.Progress
	took, done := now.Sub(p.fillBegan).Seconds(), v.Progress-p.fillAt
	if took >= 1 && done > 0 && v.Progress < 1 {
		left := took * (1 - v.Progress) / done
		v.ETA = &left
	}
}

// curves holds the last hour of a view: a value for each step, oldest first; nil where the value is unknown.
type curves struct {
	lag  []*float64 // the highest lag in each time step
	rate []*float64
}

// of returns the last hour of a view, up to now.
func (h *history) of(now time.Time, view, source string) curves {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := curves{lag: make([]*float64, historyLength), rate: make([]*float64, historyLength)}
	p := h.views[viewKey{view, source}]
	if p == nil {
		return known
	}
	last := stepOf(now)
	for i := range historyLength {
		step := last - int64(historyLength-1-i)
		if step > p.step || step <= p.step-int64(historyLength) {
			continue
		}
		at := step % int64(historyLength)
		known.lag[i], known.rate[i] = value(p.lag[at]), value(p.rate[at])
	}
	return known
}

func value(v float32) *float64 {
	if math.IsNaN(float64(v)) {
		return nil
	}
	rounded := math.Round(float64(v)*1000) / 1000
	return &rounded
}
