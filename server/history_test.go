package server

import (
	"testing"
	"time"

	"replicator"
)

func TestHistoryIsThatOfTheLastHour(t *testing.T) {
	h := newHistory()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 2 * historyLength {
		v := viewOf("v", replicator.StateRunning, lag(float64(i)))
		v.Rate = 2 * float64(i)
		h.record(began.Add(time.Duration(i)*historyStep), []replicator.ViewStatus{v})
	}
	now := began.Add(time.Duration(2*historyLength-1) * historyStep)
	p := h.of(now, "v", "")
	if len(p.lag) != 240 || *p.lag[0] != 240 || *p.lag[239] != 479 || *p.rate[239] != 958 {
		t.Errorf("%d values, from %v to %v", len(p.lag), p.lag[0], p.lag[239])
	}
	// The view was not observed for a while. The curve has a gap there, and the older values have moved left.
	p = h.of(now.Add(10*historyStep), "v", "")
	if p.lag[239] != nil || p.lag[229] == nil || *p.lag[229] != 479 {
		t.Errorf("after a gap: %v, %v", p.lag[239], p.lag[229])
	}
	h.record(now.Add(3*time.Hour), []replicator.ViewStatus{viewOf("v", replicator.StateRunning, lag(1))})
	p = h.of(now.Add(3*time.Hour), "v", "")
	if p.lag[238] != nil || p.lag[0] != nil || *p.lag[239] != 1 {
		t.Error("what is older than an hour is still there")
	}
	h.record(now.Add(3*time.Hour), []replicator.ViewStatus{viewOf("v", replicator.StateRunning, lag(0))})
	if p = h.of(now.Add(3*time.Hour), "v", ""); *p.lag[239] != 1 {
		t.Error("a short lag is lost")
	}
	h.record(now, []replicator.ViewStatus{viewOf("w", replicator.StateRunning, nil)})
	if len(h.views) != 1 {
		t.Errorf("%d views are remembered", len(h.views))
	}
}

func TestErrorsAreToldWithTheirTimes(t *testing.T) {
	h := newHistory()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	record := func(after time.Duration, err string) replicator.ViewStatus {
		v := []replicator.ViewStatus{viewOf("v", replicator.StateRetrying, nil)}
		v[0].Error = err
		h.record(at.Add(after), v)
		return v[0]
	}
	if v := record(0, ""); !v.ErrorSince.IsZero() || v.LastError != nil {
		t.Errorf("before any: %+v", v)
	}
	record(time.Minute, "it is full")
	if v := record(2*time.Minute, "it is still full"); !v.ErrorSince.Equal(at.Add(time.Minute)) || v.LastError != nil {
		t.Errorf("meanwhile: %+v", v)
	}
	v := record(3*time.Minute, "")
	want := replicator.PastError{Error: "it is still full", Since: at.Add(time.Minute), Until: at.Add(3 * time.Minute)}
	if v.LastError == nil || *v.LastError != want {
		t.Errorf("afterwards: %+v", v.LastError)
	}
}

func TestAFillIsEstimatedByHowFastItIs(t *testing.T) {
	h := newHistory()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	record := func(after time.Duration, state string, progress float64) *float64 {
		v := []replicator.ViewStatus{viewOf("v", state, nil)}
		v[0].Progress = progress
		h.record(at.Add(after), v)
		return v[0].ETA
	}
	if record(0, replicator.StateFilling, 0.5) != nil {
		t.Error("known at once")
	}
	if eta := record(10*time.Second, replicator.StateFilling, 0.75); eta == nil || *eta != 10 {
		t.Errorf("a quarter in 10 s, and one is left: %v", eta)
	}
	if record(20*time.Second, replicator.StateRunning, 0) != nil {
		t.Error("of a view that is not filled")
	}
	record(30*time.Second, replicator.StateRebuilding, 0.1)
	if eta := record(40*time.Second, replicator.StateRebuilding, 0.2); eta == nil || int(*eta+.5) != 80 {
		t.Errorf("the next one: %v", eta)
	}
	if record(50*time.Second, replicator.StateRebuilding, 0) != nil {
		t.Error("of one that begins anew")
	}
}
