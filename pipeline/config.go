package pipeline

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"replicator"
	"replicator/internal/remedy"
)

// Config is what a pipeline is made from. It is not to be changed once the pipeline runs.
type Config struct {
	Name    string // the sink's name
	Source  replicator.Source
	Sink    replicator.Sink
	Views   []*replicator.View
	Compile func(views []*replicator.View) (replicator.Evaluator, error)

	// Feeds reports whether a source of that name is one that the configuration has. nil: all are.
	Feeds func(source string) bool

	// SourceOf is the source as views that run together need it: rows carry the columns that these read, so that one which
	// a table lacks is no error for others. It is not closed, its Name is the Source's. nil: it is Source.
	SourceOf func(views []*replicator.View) (replicator.Source, error)

	Store      replicator.Store
	StartAt    string // snapshot, earliest or latest: for a view without a checkpoint
	OnLost     string // stop or rebuild
	OnUnlogged string // repair, rebuild or stop: where rows change and the log doesn't say which; default repair

	Observer replicator.Observer
	Log      *slog.Logger
	Lanes    int           // default 2
	Memory   int64         // bytes of rows in flight; default 64 MiB
	Interval time.Duration // between checkpoints; default 1 s
	Drain    time.Duration // the longest that a stop, or the source's failure, waits for what is in flight; default 20 s
	Rate     int           // rows a second of a fill; 0: no limit
	Deleted  time.Duration // how long cells that are gone are remembered, where the sink can forget them; 0: for ever

	// SavesIdle: positions that move without a change for these views are saved each interval. Not for a store that
	// writes to the source itself: its writes would move the position.
	SavesIdle bool

	// Paused are views that are paused from the start, as they were before: another configuration resumes nothing.
	Paused []string

	// LastShown is what Pipeline.Shown said of an earlier pipeline with the same source: an outage's lag is not less
	// because another configuration took over in it.
	LastShown map[string]time.Time
}

// Repair goes on where rows changed and the log doesn't say which, and has the views that read them compared with the
// source and repaired.
const Repair = "repair"

// setDefaults fills in what was left out.
func (c *Config) setDefaults() {
	if c.Observer == nil {
		c.Observer = nopObserver{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	set(&c.Lanes, 2)
	set(&c.Memory, 64<<20)
	set(&c.Interval, time.Second)
	set(&c.OnUnlogged, Repair)
	set(&c.Drain, 20*time.Second)
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// view is the view of that name; nil if there is none.
func (c *Config) view(name string) *replicator.View {
	for _, v := range c.Views {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// inOrder returns views in the configuration's order, shadows last.
func (c *Config) inOrder(views viewSet) viewSet {
	place := func(v *replicator.View) int {
		if i := slices.Index(c.Views, v); i >= 0 {
			return i
		}
		return len(c.Views)
	}
	slices.SortStableFunc(views, func(a, b *replicator.View) int { return place(a) - place(b) })
	return views
}

// sourceOf is the source as views that run together need it.
func (c *Config) sourceOf(views []*replicator.View) (replicator.Source, error) {
	if c.SourceOf == nil {
		return c.Source, nil
	}
	return c.SourceOf(views)
}

// ofShard names the source in an error, where it is one of several.
func (c *Config) ofShard(err error) error {
	if name := c.Source.Name(); name != "" && err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	return err
}

// logRecovery says that trouble is over that began at a time; zero: there was none.
func (c *Config) logRecovery(since time.Time, views viewSet) {
	if !since.IsZero() {
		c.Log.Info("pipeline recovered", "sink", c.Name, "views", views.names(),
			"after", time.Since(since).Round(time.Millisecond))
	}
}

// ofSink names the sink in an error.
func (c *Config) ofSink(err error) error { return fmt.Errorf("sink %s: %w", c.Name, err) }

// swaps reports whether rebuilt views can be swapped in. A source with a name is one of several that fill one target: a
// shadow that it filled would lack what the others hold.
func (c *Config) swaps() bool {
	_, ok := c.Sink.(replicator.Shadower)
	return ok && c.Source.Name() == ""
}

// changelog is the source, if its log is all that it has.
func (c *Config) changelog() replicator.Changelog {
	log, _ := c.Source.(replicator.Changelog)
	return log
}

// anew is how a person has views filled again.
func (c *Config) anew(views viewSet) string { return "`replicator rebuild " + views.words() + "`" }

// unread is why the mark of a view can't be read.
func (c *Config) unread(m *replicator.Mark) error {
	return replicator.OfView(fmt.Errorf("sink %s: view %s: %w", c.Name, m.View, remedy.Named(m.Err, m.View)), m.View)
}

// nopObserver is the Observer of a pipeline that has none.
type nopObserver struct{}

func (nopObserver) Applied(string, string, int)        {}
func (nopObserver) Stale(string, int)                  {}
func (nopObserver) DeadLetter(string, string)          {}
func (nopObserver) Visible(string, time.Duration, int) {}
func (nopObserver) Scanned(string, int)                {}
func (nopObserver) Batch(string, int, time.Duration)   {}
func (nopObserver) Retry(string)                       {}
