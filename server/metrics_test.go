package server

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
)

// contract lists the metrics that users may rely on, with their labels.
var contract = []string{
	"replicator_source_position_age_seconds", "replicator_source_events_total", "replicator_source_bytes_total",
	`replicator_view_lag_seconds{view="v"}`, `replicator_changes_applied_total{op="put",view="v"}`,
	`replicator_changes_stale_total{view="v"}`,
	`replicator_dead_letters_total{reason="rejected",view="v"}`, `replicator_dead_letters{view="v"}`,
	`replicator_batch_seconds_bucket{sink="main",le="0.001"}`, `replicator_batch_changes{sink="main"}`,
	`replicator_sink_retries_total{sink="main"}`,
	`replicator_commit_to_visible_seconds_bucket{view="v",le="1"}`, `replicator_rebuild_rows_total{view="v"}`,
	`replicator_rebuild_progress_ratio{view="v"}`, `replicator_checkpoint_age_seconds{view="v"}`,
	"replicator_binlog_retention_seconds", "replicator_source_logs_statements",
	`replicator_view_running{view="v"}`,
	`replicator_build_info{goversion="` + runtime.Version() + `",revision="abc",version="1.2.3"}`,
	"replicator_config_last_reload_successful", "replicator_standby",
	// The standard metrics of Go programs, which dashboards expect.
	"go_goroutines", "process_start_time_seconds",
}

func scrape(t *testing.T, p *program, m *Metrics) string {
	t.Helper()
	s, _ := serve(t, "127.0.0.1:0", "", p, m)
	code, _, text := ask(t, s, "GET", "/metrics", "", nil)
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	return text
}

func TestEveryMetricShowsBeforeAnythingHappens(t *testing.T) {
	m := NewMetrics(&replicator.View{Name: "v", Sink: "main"})
	m.Build("1.2.3", "abc")
	m.Sources(func(context.Context) []SourceStats { return []SourceStats{{PositionAge: lag(1), Retention: lag(7)}} })
	text := scrape(t, &program{views: []replicator.ViewStatus{viewOf("v", replicator.StateRunning, lag(0))}}, m)
	for _, name := range contract {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("no %s", name)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		name := strings.TrimLeft(line, "# HELPTY")
		if line != "" && !slices.ContainsFunc([]string{"replicator_", "go_", "process_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("another name: %s", line)
		}
	}
}

func TestAReloadThatFailedShows(t *testing.T) {
	m := NewMetrics()
	for _, c := range []struct {
		does func()
		want string
	}{{m.Loaded, "1"}, {m.NotLoaded, "0"}, {m.Loaded, "1"}} {
		c.does()
		if text := scrape(t, &program{}, m); !strings.Contains(text,
			"\nreplicator_config_last_reload_successful "+c.want+"\n") {
			t.Errorf("no %s", c.want)
		}
	}
}

func TestMetricsCountWhatPipelinesDo(t *testing.T) {
	m := NewMetrics()
	var observer replicator.Observer = m
	observer.Applied("v", "put", 5)
	observer.Applied("v", "put", 2)
	observer.Stale("v", 3)
	observer.DeadLetter("v", "row")
	observer.Visible("v", -time.Second, 1)
	observer.Visible("v", 3*time.Millisecond, 1)
	observer.Scanned("v", 11)
	observer.Batch("main", 42, 2*time.Millisecond)
	observer.Retry("main")
	text := scrape(t, &program{}, m)
	for _, want := range []string{
		`replicator_changes_applied_total{op="put",view="v"} 7`, `replicator_changes_stale_total{view="v"} 3`, `replicator_dead_letters_total{reason="row",view="v"} 1`,
		`replicator_commit_to_visible_seconds_bucket{view="v",le="0.001"} 1`,
		`replicator_commit_to_visible_seconds_bucket{view="v",le="0.005"} 2`,
		`replicator_commit_to_visible_seconds_sum{view="v"} 0.003`, `replicator_rebuild_rows_total{view="v"} 11`,
		`replicator_batch_changes{sink="main"} 42`, `replicator_batch_seconds_count{sink="main"} 1`,
		`replicator_sink_retries_total{sink="main"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestViewsOfSeveralSourcesAreOneMetric(t *testing.T) {
	a, b, c := viewOf("v", replicator.StateRunning, lag(2)), viewOf("v", replicator.StateFilling, lag(9)), viewOf("w",
		replicator.StateRunning, nil)
	a.Source, b.Source = "a", "b"
	d, e := viewOf("kept", replicator.StateRebuilding, lag(0)), viewOf("frozen", replicator.StateRebuilding, lag(60))
	e.Frozen = true
	a.DeadLetters, b.DeadLetters, b.Progress, a.Checkpoint = 4, 4, .25, 3
	m := NewMetrics()
	m.Sources(func(context.Context) []SourceStats {
		return []SourceStats{{Events: 1, Bytes: 10, PositionAge: lag(5), Retention: lag(100)},
			{Events: 2, Bytes: 20, Retention: lag(50), Format: "MIXED"}}
	})
	text := scrape(t, &program{views: []replicator.ViewStatus{a, b, c, d, e}}, m)
	for _, want := range []string{
		`replicator_view_lag_seconds{view="v"} 9`, `replicator_dead_letters{view="v"} 4`, `replicator_rebuild_progress_ratio{view="v"} 0.25`,
		`replicator_rebuild_progress_ratio{view="w"} 1`, `replicator_checkpoint_age_seconds{view="v"} 3`,
		`replicator_view_running{view="v"} 0`,
		`replicator_view_running{view="kept"} 1`, `replicator_view_running{view="frozen"} 0`,
		`replicator_view_running{view="w"} 1`, `replicator_source_events_total 3`, `replicator_source_bytes_total 30`,
		`replicator_source_position_age_seconds 5`, `replicator_source_logs_statements 1`,
		`replicator_binlog_retention_seconds 50`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `replicator_view_lag_seconds{view="w"}`) {
		t.Error("an unknown lag has a value")
	}
}

func TestScrapeGoesOnWithoutTheViewsWhenStatusFails(t *testing.T) {
	m := NewMetrics()
	m.Retry("main")
	if text := scrape(t, &program{err: errors.New("store is gone")}, m); !strings.Contains(text,
		`replicator_sink_retries_total{sink="main"} 1`) {
		t.Errorf("got %s", text)
	}
}

func TestMetricsOfAViewThatIsGoneShowNoMore(t *testing.T) {
	a, b := &replicator.View{Name: "a", Sink: "main"}, &replicator.View{Name: "b", Sink: "main"}
	m := NewMetrics(a, b)
	m.Stale("a", 1)
	m.Stale("b", 2)
	m.Views(b, &replicator.View{Name: "c", Sink: "main"})
	text := scrape(t, &program{}, m)
	for _, want := range []string{`replicator_changes_stale_total{view="b"} 2`,
		`replicator_changes_stale_total{view="c"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, `view="a"`) {
		t.Errorf("view a shows:\n%s", text)
	}
}

// With a source in Kafka, each member shows how far it is behind in its own partitions. All members show how far the
// view is behind in partitions without a member.
func TestPartitionsShowHowFarAViewIsBehind(t *testing.T) {
	behind := int64(7)
	of := func(source, state string) replicator.ViewStatus {
		v := viewOf("v", state, lag(0))
		v.Source, v.Behind = source, &behind
		return v
	}
	text := scrape(t, &program{views: []replicator.ViewStatus{of("cells/0", replicator.StateRunning),
		of("cells/1", replicator.StateMember), of("cells/2", replicator.StateUnassigned)}}, NewMetrics())
	for source, want := range map[string]bool{"cells/0": true, "cells/1": false, "cells/2": true} {
		line := `replicator_view_behind_records{source="` + source + `",view="v"} 7`
		if strings.Contains(text, line) != want {
			t.Errorf("%s is shown: %t", line, !want)
		}
	}
}

// A member gave up a partition, as in an outage of the brokers, and no member has it now. The view's lag is then the
// lag of this partition.
func TestTheLagOfAPartitionThatNobodyHasIsTheViews(t *testing.T) {
	of := func(source, state string, lag *float64) replicator.ViewStatus {
		v := viewOf("v", state, lag)
		v.Source = source
		return v
	}
	text := scrape(t, &program{views: []replicator.ViewStatus{of("cells/0", replicator.StateRunning, lag(1)),
		of("cells/1", replicator.StateMember, nil), of("cells/2", replicator.StateUnassigned, nil),
		of("cells/3", replicator.StateUnassigned, lag(9))}}, NewMetrics())
	if !strings.Contains(text, `replicator_view_lag_seconds{view="v"} 9`) {
		t.Errorf("the lag is not shown:\n%s", text)
	}
}
