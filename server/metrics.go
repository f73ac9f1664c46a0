package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"replicator"
)

// Metrics are the program's metrics. They implement replicator.Observer; what is a state and not a count is asked of the
// Controller when they are collected.
type Metrics struct {
	registry *prometheus.Registry

	events, bytes                        prometheus.Counter
	applied, stale, letters, scanned     *prometheus.CounterVec
	retries                              *prometheus.CounterVec
	batchSeconds, batchChanges, visibles *prometheus.HistogramVec

	mu        sync.Mutex
	retention func(context.Context) (time.Duration, bool)
}

var _ replicator.Observer = (*Metrics)(nil)

// NewMetrics makes the program's metrics in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "replicator", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "replicator", Name: name, Help: help, Buckets: buckets}, labels)
	}
	times := prometheus.ExponentialBuckets(0.0005, 2, 18) // 0.5 ms to 65 s
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		events:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "replicator", Name: "source_events_total", Help: "Binlog events read."}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Namespace: "replicator", Name: "source_bytes_total", Help: "Bytes of binlog read."}),

		applied: counter("changes_applied_total", "Changes applied to a view.", "view", "op"),
		stale:   counter("changes_stale_total", "Changes older than what the view held already.", "view"),
		letters: counter("dead_letters_total", "Rows that could not be decoded or written.", "view", "reason"),
		scanned: counter("rebuild_rows_total", "Rows that fills and rebuilds have put.", "view"),
		retries: counter("sink_retries_total", "Times that a pipeline of the sink began anew after an error.", "sink"),

		batchSeconds: histogram("batch_seconds", "Time to apply a batch.", times, "sink"),
		batchChanges: histogram("batch_changes", "Changes in a batch.", prometheus.ExponentialBuckets(1, 2, 11), "sink"),
		visibles:     histogram("commit_to_visible_seconds", "From the commit at the source until the change was durable in the sink.", times, "view"),
	}
	m.registry.MustRegister(m.events, m.bytes, m.applied, m.stale, m.letters, m.scanned, m.retries, m.batchSeconds, m.batchChanges,
		m.visibles, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Read counts what was read from a source.
func (m *Metrics) Read(events int, bytes int64) {
	m.events.Add(float64(events))
	m.bytes.Add(float64(bytes))
}

// SetRetention says how to ask for the time left before the oldest binlog that is needed may be purged.
func (m *Metrics) SetRetention(ask func(context.Context) (time.Duration, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retention = ask
}

// Applied implements replicator.Observer.
func (m *Metrics) Applied(view, op string, n int) {
	m.applied.WithLabelValues(view, op).Add(float64(n))
}

// Stale implements replicator.Observer.
func (m *Metrics) Stale(view string, n int) { m.stale.WithLabelValues(view).Add(float64(n)) }

// DeadLetter implements replicator.Observer.
func (m *Metrics) DeadLetter(view, reason string) { m.letters.WithLabelValues(view, reason).Inc() }

// Visible implements replicator.Observer.
func (m *Metrics) Visible(view string, after time.Duration) {
	m.visibles.WithLabelValues(view).Observe(max(0, after.Seconds()))
}

// Scanned implements replicator.Observer.
func (m *Metrics) Scanned(view string, rows int) { m.scanned.WithLabelValues(view).Add(float64(rows)) }

// Batch implements replicator.Observer.
func (m *Metrics) Batch(sink string, ops int, took time.Duration) {
	m.batchSeconds.WithLabelValues(sink).Observe(took.Seconds())
	m.batchChanges.WithLabelValues(sink).Observe(float64(ops))
}

// Retry implements replicator.Observer.
func (m *Metrics) Retry(sink string) { m.retries.WithLabelValues(sink).Inc() }

// handler serves the metrics, with what the controller says now.
func (m *Metrics) handler(c Controller) http.Handler {
	state := prometheus.NewRegistry()
	state.MustRegister(&stateCollector{controller: c, metrics: m})
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, state}, promhttp.HandlerOpts{})
}

// stateCollector turns the status into gauges.
type stateCollector struct {
	controller Controller
	metrics    *Metrics
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("replicator_"+name, help, labels, nil)
}

var (
	lagDesc        = gauge("view_lag_seconds", "How old the oldest committed change is that the view does not show.", "view")
	upDesc         = gauge("view_running", "1 while the view is running.", "view")
	lettersDesc    = gauge("dead_letters", "Dead letters of the view.", "view")
	checkpointDesc = gauge("checkpoint_age_seconds", "How long ago the view's checkpoint was saved.", "view")
	progressDesc   = gauge("rebuild_progress_ratio", "How much of a fill or rebuild is done.", "view")
	ageDesc        = gauge("source_position_age_seconds", "The greatest lag of any view: how far behind the source reading is.")
	retentionDesc  = gauge("binlog_retention_seconds", "Time left before the oldest needed binlog may be purged.")
)

// Describe implements prometheus.Collector.
func (s *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagDesc, upDesc, lettersDesc, checkpointDesc, progressDesc, ageDesc, retentionDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *stateCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	views, err := s.controller.Status(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(lagDesc, err)
		return
	}
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	age := 0.0
	for _, v := range merge(views) {
		running := 0.0
		if v.State == replicator.StateRunning {
			running = 1
		}
		send(upDesc, running, v.View)
		send(lettersDesc, float64(v.DeadLetters), v.View)
		send(checkpointDesc, v.Checkpoint, v.View)
		if v.LagSeconds != nil {
			send(lagDesc, *v.LagSeconds, v.View)
			age = max(age, *v.LagSeconds)
		}
		if v.State == replicator.StateFilling || v.State == replicator.StateRebuilding {
			send(progressDesc, v.Progress, v.View)
		}
	}
	send(ageDesc, age)
	s.metrics.mu.Lock()
	ask := s.metrics.retention
	s.metrics.mu.Unlock()
	if ask != nil {
		if left, ok := ask(ctx); ok {
			send(retentionDesc, left.Seconds())
		}
	}
}

// merge makes one status of a view that is fed by several shards of a source: the worst of them.
func merge(views []replicator.ViewStatus) []replicator.ViewStatus {
	var merged []replicator.ViewStatus
	at := map[string]int{}
	for _, v := range views {
		i, ok := at[v.View]
		if !ok {
			at[v.View] = len(merged)
			merged = append(merged, v)
			continue
		}
		m := &merged[i]
		if v.State != replicator.StateRunning {
			m.State = v.State
		}
		if m.LagSeconds == nil || v.LagSeconds != nil && *v.LagSeconds > *m.LagSeconds {
			m.LagSeconds = v.LagSeconds
		}
		m.Checkpoint = max(m.Checkpoint, v.Checkpoint)
		m.Progress = min(m.Progress, v.Progress)
	}
	return merged
}
