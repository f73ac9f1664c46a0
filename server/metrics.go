package server

import (
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"replicator"
)

// prefix is the beginning of every metric's name.
const prefix = "replicator"

// Metrics counts the work of pipelines. It implements replicator.Observer and has its own registry.
type Metrics struct {
	registry *prometheus.Registry
	now      *nowCollector
	views    []string // the names of the views with metrics

	applied     *prometheus.CounterVec
	stale       *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	visible     *prometheus.HistogramVec
	scanned     *prometheus.CounterVec
	batches     *prometheus.HistogramVec
	batchSize   *prometheus.GaugeVec
	retries     *prometheus.CounterVec

	build    *prometheus.GaugeVec
	reloaded prometheus.Gauge
	standby  prometheus.Gauge
}

var _ replicator.Observer = (*Metrics)(nil)

// NewMetrics creates metrics. The counters of the given views start at zero.
func NewMetrics(views ...*replicator.View) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: prefix, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: prefix, Name: name, Help: help,
			Buckets: buckets}, []string{label})
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		now:         newNowCollector(),
		applied:     counter("changes_applied_total", "Changes written to the view.", "view", "op"),
		stale:       counter("changes_stale_total", "Changes that were older than what the view held.", "view"),
		deadLetters: counter("dead_letters_total", "Changes that could not be decoded or written.", "view", "reason"),
		visible: histogram("commit_to_visible_seconds", "From the source's commit until the change was durable in the sink.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}, "view"),
		scanned: counter("rebuild_rows_total", "Rows that fills and rebuilds wrote.", "view"),
		batches: histogram("batch_seconds", "Time until a batch was durable in the sink.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "sink"),
		batchSize: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: prefix, Name: "batch_changes",
			Help: "Changes in the latest batch."}, []string{"sink"}),
		retries: counter("sink_retries_total", "Times that an error interrupted the sink's views, which then began "+
			"again at their saved positions.", "sink"),

		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: prefix, Name: "build_info",
			Help: "Always 1; the labels identify the build."}, []string{"version", "revision", "goversion"}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: prefix, Name: "config_last_reload_successful",
			Help: "1 if the configuration that was last read is in use, 0 if it is invalid."}),
		standby: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: prefix, Name: "standby",
			Help: "1 while another process runs on the same checkpoint store and this one waits to take over."}),
	}
	m.registry.MustRegister(m.now, m.applied, m.stale, m.deadLetters, m.visible, m.scanned, m.batches,
		m.batchSize, m.retries, m.build, m.reloaded, m.standby)
	// These collectors use the standard names of Go programs, which dashboards expect.
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Views(views...)
	return m
}

// Views sets which views have metrics, and removes the metrics of all other views. A view that stays keeps its counts.
func (m *Metrics) Views(views ...*replicator.View) {
	keeps := func(name string) bool {
		return slices.ContainsFunc(views, func(v *replicator.View) bool { return v.Name == name })
	}
	m.views = slices.DeleteFunc(m.views, func(name string) bool {
		if !keeps(name) {
			m.withdraw(name)
		}
		return !keeps(name)
	})
	for _, v := range views {
		m.declare(v)
		if !slices.Contains(m.views, v.Name) {
			m.views = append(m.views, v.Name)
		}
	}
}

func (m *Metrics) withdraw(view string) {
	of := prometheus.Labels{"view": view}
	for _, c := range []*prometheus.CounterVec{m.applied, m.stale, m.deadLetters, m.scanned} {
		c.DeletePartialMatch(of)
	}
	m.visible.DeletePartialMatch(of)
}

// declare creates a view's metrics before anything happens. Prometheus can compute a rate only from a counter that
// starts at zero.
func (m *Metrics) declare(v *replicator.View) {
	for _, op := range []string{"put", "reset"} {
		m.applied.WithLabelValues(v.Name, op)
	}
	for _, reason := range []string{"row", "evaluate", "rejected"} {
		m.deadLetters.WithLabelValues(v.Name, reason)
	}
	m.stale.WithLabelValues(v.Name)
	m.visible.WithLabelValues(v.Name)
	m.scanned.WithLabelValues(v.Name)
	m.batches.WithLabelValues(v.Sink)
	m.batchSize.WithLabelValues(v.Sink)
	m.retries.WithLabelValues(v.Sink)
}

// Applied counts n changes that were written to a view. op is "put" or "reset".
func (m *Metrics) Applied(view string, op string, n int) {
	m.applied.WithLabelValues(view, op).Add(float64(n))
}

// Stale counts n changes that were older than what the view held.
func (m *Metrics) Stale(view string, n int) { m.stale.WithLabelValues(view).Add(float64(n)) }

// DeadLetter counts a dead letter of a view. reason is "row", "evaluate" or "rejected".
func (m *Metrics) DeadLetter(view string, reason string) {
	m.deadLetters.WithLabelValues(view, reason).Inc()
}

// Visible records that n changes were durable in a view the given time after their commit. A negative time, from a
// source whose clock is ahead, counts as zero.
func (m *Metrics) Visible(view string, after time.Duration, n int) {
	visible, seconds := m.visible.WithLabelValues(view), max(0, after.Seconds())
	for range n {
		visible.Observe(seconds)
	}
}

// Scanned counts rows of the source that a fill of the view has scanned.
func (m *Metrics) Scanned(view string, rows int) { m.scanned.WithLabelValues(view).Add(float64(rows)) }

// Batch records the size of a batch, and the time that the sink took to write it.
func (m *Metrics) Batch(sink string, ops int, took time.Duration) {
	m.batches.WithLabelValues(sink).Observe(took.Seconds())
	m.batchSize.WithLabelValues(sink).Set(float64(ops))
}

// Retry counts an error that ended a session of the sink's views. The next session begins at their saved positions.
func (m *Metrics) Retry(sink string) { m.retries.WithLabelValues(sink).Inc() }

// Build sets the program's version and revision.
func (m *Metrics) Build(version, revision string) {
	m.build.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// StandsBy records that this process waits to take over from another one.
func (m *Metrics) StandsBy() { m.standby.Set(1) }

// Runs records that this process is not a standby.
func (m *Metrics) Runs() { m.standby.Set(0) }

// Loaded records that the configuration that was last read is in use.
func (m *Metrics) Loaded() { m.reloaded.Set(1) }

// NotLoaded records that the configuration that was last read is invalid and an older configuration is in use.
func (m *Metrics) NotLoaded() { m.reloaded.Set(0) }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: nil, ErrorHandling: promhttp.ContinueOnError,
		Timeout: answerTime})
}
