package service

import (
	"testing"

	"replicator"
	"replicator/config"
)

// Several sources fill a view in parallel. The plan shows the worst action of its sources.
func TestThePlanOfAViewWithSeveralSources(t *testing.T) {
	p := &planner{views: map[string]*PlannedView{}}
	for _, one := range []PlannedView{
		{View: "a", Action: PlanUnchanged},
		{View: "a", Action: PlanFill, Rows: 100, Seconds: 5, Reason: "new"},
		{View: "a", Action: PlanFill, Rows: 40, Seconds: 2, Reason: "new"},
		{View: "b", Action: PlanRefused, Reason: "it changed"},
		{View: "b", Action: PlanUnchanged},
	} {
		p.add(one)
	}
	if want := (PlannedView{View: "a", Action: PlanFill, Rows: 140, Seconds: 5, Reason: "new"}); *p.views["a"] != want {
		t.Errorf("%+v, want %+v", *p.views["a"], want)
	}
	if got := p.views["b"]; got.Action != PlanRefused || got.Reason != "it changed" {
		t.Errorf("%+v", got)
	}
}

// The requested rate comes first, then a measured rate, then the assumed rate. [rebuild] rate limits all of them.
func TestTheRateOfAPlan(t *testing.T) {
	eta := 10.0
	filling := map[string]replicator.ViewStatus{
		"v": {Sink: "cache", FilledRows: 1000, Progress: 0.25, ETA: &eta}, // 3,000 rows are left for 10 seconds
	}
	for _, c := range []struct {
		asked, configured int
		running           map[string]replicator.ViewStatus
		want              float64
		from              string
	}{
		{want: assumedRate, from: RateAssumed},
		{asked: 50, want: 50, from: RateAsked},
		{asked: 50, configured: 10, want: 50, from: RateAsked},
		{configured: 10, want: 10, from: RateLimit},
		{configured: 10 * assumedRate, want: assumedRate, from: RateAssumed},
		{running: filling, want: 300, from: RateFill},
		{running: filling, configured: 10, want: 10, from: RateLimit},
	} {
		p := &planner{Setup: Setup{Config: &config.Config{Rebuild: config.Rebuild{Rate: c.configured}}},
			asked: c.asked, running: c.running}
		if got, from := p.rate("cache"); got != c.want || from != c.from {
			t.Errorf("%+v: %g, %s", c, got, from)
		}
	}
}
