package service

import (
	"testing"

	"replicator/config"
)

// A view of several sources is filled from all of them side by side; what is worst with one of them is said.
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

func TestTheRateOfAPlan(t *testing.T) {
	for _, c := range []struct{ asked, configured, want int }{
		{0, 0, statedRate}, {50, 0, 50}, {50, 10, 50}, {0, 10, 10}, {0, 10 * statedRate, statedRate},
	} {
		cfg := &config.Config{Rebuild: config.Rebuild{Rate: c.configured}}
		if got := PlannedRate(cfg, c.asked); got != c.want {
			t.Errorf("asked for %d, configured %d: %d, want %d", c.asked, c.configured, got, c.want)
		}
	}
}
