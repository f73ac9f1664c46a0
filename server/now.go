package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"replicator"
)

// SourceStats describes one source as one pipeline reads it. Each pipeline has its own reader.
type SourceStats struct {
	Sink, Source  string   // the pipeline's sink, and the shard that the pipeline reads
	Position      string   // the lowest position of the pipeline's views, as FILE:POS
	GTID          string   // the transactions before Position, as a GTID set
	Events, Bytes int64    // events and bytes of the binlog that were read since the start
	Format        string   // the server's binlog_format; "" if it is ROW
	PositionAge   *float64 // the highest lag of the pipeline's views behind the log, in seconds; nil: unknown
	Retention     *float64 // seconds until the server may purge the binlog at Position; +Inf: never; nil: unknown
}

// Sources sets the function that returns the sources' stats. Each scrape calls it with a timeout of two seconds. With
// several sources, the metrics show the sum of the counters, the highest age and the shortest retention.
func (m *Metrics) Sources(get func(context.Context) []SourceStats) { m.now.sources.Store(&get) }

// setController sets the Controller that each scrape asks for the status of the views.
func (m *Metrics) setController(c Controller) { m.now.controller.Store(&c) }

// nowCollector collects the metrics whose values are read at each scrape. It implements prometheus.Collector.
type nowCollector struct {
	controller atomic.Pointer[Controller]
	sources    atomic.Pointer[func(context.Context) []SourceStats]

	lag, letters, progress, checkpoint, running  *prometheus.Desc
	behind                                       *prometheus.Desc
	sourceAge, sourceEvents, sourceBytes, retain *prometheus.Desc
	statements                                   *prometheus.Desc
}

func newNowCollector() *nowCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"_"+name, help, labels, nil)
	}
	return &nowCollector{
		lag: desc("view_lag_seconds", "Time since the view last included everything that was committed. "+
			"Grows during an outage. Absent while unknown.", "view"),
		letters: desc("dead_letters", "Dead letters of the view.", "view"),
		progress: desc("rebuild_progress_ratio", "Completed share of the running fill or rebuild; "+
			"1 if none is running.", "view"),
		checkpoint: desc("checkpoint_age_seconds", "Time since the view's checkpoint last included all its progress; "+
			"until the first save, time since the program started.", "view"),
		running: desc("view_running", "1 while the view is kept up to date. 0 while it is filling, paused, "+
			"retrying or failed, or frozen until a rebuild is done.", "view"),
		behind: desc("view_behind_records", "Records of a Kafka partition that the view does not include yet. "+
			"Covers this process's partitions and partitions without a member.", "view", "source"),
		sourceAge: desc("source_position_age_seconds",
			"How far the slowest view is behind in reading the source's log, in seconds; "+
				"0 once all views have caught up."),
		sourceEvents: desc("source_events_total", "Binlog events read."),
		sourceBytes:  desc("source_bytes_total", "Bytes of binlog read."),
		retain: desc("binlog_retention_seconds",
			"Time until the source may purge a binlog file that a view needs."),
		statements: desc("source_logs_statements", "1 while a source's binlog_format is not ROW. The program then "+
			"compares the views with the source repeatedly. Fix: SET GLOBAL binlog_format = ROW."),
	}
}

func (c *nowCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lag, c.letters, c.progress, c.checkpoint, c.running, c.behind,
		c.sourceAge, c.sourceEvents, c.sourceBytes, c.retain, c.statements} {
		out <- d
	}
}

func (c *nowCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var oldest *float64
	if controller := c.controller.Load(); controller != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		views, err := (*controller).Status(ctx)
		if err != nil { // a failed scrape must not look as if there were no views
			out <- prometheus.NewInvalidMetric(c.lag, err)
		}
		for _, v := range views {
			// The member of the consumer group that reads a partition reports this metric. If there is none, every
			// member does.
			if v.Behind != nil && v.State != replicator.StateMember {
				gauge(c.behind, float64(*v.Behind), v.View, v.Source)
			}
		}
		for _, v := range merged(views) {
			if v.State == replicator.StateStandby { // the process that runs the view reports its metrics
				continue
			}
			if v.LagSeconds != nil {
				gauge(c.lag, *v.LagSeconds, v.View)
				oldest = worst(oldest, v.LagSeconds, 1)
			}
			gauge(c.letters, float64(v.DeadLetters), v.View)
			gauge(c.progress, v.Progress, v.View)
			gauge(c.checkpoint, v.Checkpoint, v.View)
			running := 0.0
			if v.KeptUp() {
				running = 1
			}
			gauge(c.running, running, v.View)
		}
	}
	c.collectSources(out, gauge, oldest)
}

// collectSources collects the metrics of sources. If no source reports a PositionAge, it uses lag, the highest lag of a
// view.
func (c *nowCollector) collectSources(out chan<- prometheus.Metric,
	gauge func(*prometheus.Desc, float64, ...string), lag *float64,
) {
	var events, bytes int64
	var age, retention *float64
	statements := 0.0
	if sources := c.sources.Load(); sources != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		for _, s := range (*sources)(ctx) {
			events, bytes = events+s.Events, bytes+s.Bytes
			if s.Format != "" {
				statements = 1
			}
			age = worst(age, s.PositionAge, 1)
			retention = worst(retention, s.Retention, -1)
		}
	}
	out <- prometheus.MustNewConstMetric(c.sourceEvents, prometheus.CounterValue, float64(events))
	out <- prometheus.MustNewConstMetric(c.sourceBytes, prometheus.CounterValue, float64(bytes))
	gauge(c.statements, statements)
	if age == nil {
		age = lag
	}
	if age != nil {
		gauge(c.sourceAge, *age)
	}
	if retention != nil {
		gauge(c.retain, *retention)
	}
}

// worst returns the higher of two values, or the lower value if sign is -1. A nil value is unknown.
func worst(a, b *float64, sign float64) *float64 {
	if a == nil || b != nil && sign**b > sign**a {
		return b
	}
	return a
}

// merged combines a view's statuses for several sources into one status, because a metric has one value for each view.
// The lag is unknown if one source's lag is unknown.
func merged(all []replicator.ViewStatus) []replicator.ViewStatus {
	var views []replicator.ViewStatus
	at := map[string]int{}
	for _, v := range all {
		if v.State == replicator.StateMember || v.State == replicator.StateUnassigned && v.LagSeconds == nil {
			continue // the group member that reads the partition, or was the last to read it, reports the lag
		}
		if v.State != replicator.StateFilling && v.State != replicator.StateRebuilding {
			v.Progress = 1
		}
		i, seen := at[v.View]
		if !seen {
			at[v.View] = len(views)
			views = append(views, v)
			continue
		}
		m := &views[i]
		if m.LagSeconds == nil || v.LagSeconds == nil {
			m.LagSeconds = nil
		} else {
			m.LagSeconds = worst(m.LagSeconds, v.LagSeconds, 1)
		}
		m.DeadLetters = max(m.DeadLetters, v.DeadLetters) // each source's status has the count for the whole view
		m.Progress = min(m.Progress, v.Progress)
		m.Checkpoint = max(m.Checkpoint, v.Checkpoint)
		if m.KeptUp() {
			m.State, m.Frozen = v.State, v.Frozen
		}
	}
	return views
}
