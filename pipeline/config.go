package pipeline

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"replicator"
	"replicator/internal/remedy"
)

// Config is a pipeline's configuration. It must not change once the pipeline runs.
type Config struct {
	Name    string // the sink's name
	Source  replicator.Source
	Sink    replicator.Sink
	Views   []*replicator.View
	Compile func(views []*replicator.View) (replicator.Evaluator, error)

	// Feeds reports whether the configuration has a source of that name. nil: the configuration has every source.
	Feeds func(source string) bool

	// SourceOf returns a source with the same name as Source that reads only the columns that the given views need, so
	// that a missing column of another view does not stop them. The pipeline does not close the returned source. nil: use
	// Source.
	SourceOf func(views []*replicator.View) (replicator.Source, error)

	Store      replicator.Store
	StartAt    string // where a view without a checkpoint begins: snapshot, earliest or latest
	OnLost     string // what happens after the sink lost data or the source lost its log: stop or rebuild
	OnUnlogged string // what happens after changes that the log doesn't list: stop, repair or rebuild; default repair

	Observer replicator.Observer
	Log      *slog.Logger
	Lanes    int           // number of lanes, which apply changes in parallel; default 2
	Memory   int64         // limit of the bytes of rows in flight; default 64 MiB
	Interval time.Duration // time between checkpoints; default 1 s
	Drain    time.Duration // longest wait for changes in flight, at a stop or when the source fails; default 20 s
	Rate     int           // limit of the rows that a fill scans per second; 0: no limit
	Deleted  time.Duration // how long deleted cells are remembered, if the sink can forget them; 0: forever

	// SavesIdle saves a moved position each interval, even without changes for these views. It must be false if the
	// store is in the source itself, because each save would move the position again.
	SavesIdle bool

	// Starters makes this pipeline begin together with others that fill the same target. nil: there are no others.
	Starters *Starters

	// Paused are the names of views that are paused from the start. The views were paused when a new configuration was
	// loaded, and loading a configuration must not resume views.
	Paused []string

	// LastShown is the result of Pipeline.Shown of an earlier pipeline with the same source. With it, the lag keeps
	// growing if a new configuration is loaded during an outage.
	LastShown map[string]time.Time
}

// Repair is a value of OnUnlogged. If rows change and the log doesn't list the changes, the pipeline continues, and the
// affected views are compared with the source and repaired.
const Repair = "repair"

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

func (c *Config) view(name string) *replicator.View {
	for _, v := range c.Views {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// inOrder returns views in the configuration's order. Shadows (the second copies of views that rebuilds fill) come
// last.
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

func (c *Config) sourceOf(views []*replicator.View) (replicator.Source, error) {
	if c.SourceOf == nil {
		return c.Source, nil
	}
	return c.SourceOf(views)
}

// ofShard adds the source's name to an error, if there are several sources.
func (c *Config) ofShard(err error) error {
	if name := c.Source.Name(); name != "" && err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	return err
}

// logRecovery logs that trouble has ended. since is when it began; zero: there was none, and nothing is logged.
func (c *Config) logRecovery(since time.Time, views viewSet) {
	if !since.IsZero() {
		c.Log.Info("pipeline recovered", "sink", c.Name, "views", views.names(),
			"after", time.Since(since).Round(time.Millisecond))
	}
}

func (c *Config) ofSink(err error) error { return fmt.Errorf("sink %s: %w", c.Name, err) }

// swaps reports whether a rebuild can fill a shadow and swap it in. A source with a name is one of several that fill
// the same target, so a shadow that it filled would lack the rows of the other sources.
func (c *Config) swaps() bool {
	_, ok := c.Sink.(replicator.Shadower)
	return ok && c.Source.Name() == ""
}

// changelog returns the source if it is a Changelog, which consists of a log and has no tables; otherwise nil.
func (c *Config) changelog() replicator.Changelog {
	log, _ := c.Source.(replicator.Changelog)
	return log
}

func (c *Config) anew(views viewSet) string { return "`replicator rebuild " + views.words() + "`" }

func (c *Config) unread(m *replicator.Mark) error {
	return replicator.OfView(fmt.Errorf("sink %s: view %s: %w", c.Name, m.View, remedy.Named(m.Err, m.View)), m.View)
}

type nopObserver struct{}

func (nopObserver) Applied(string, string, int)        {}
func (nopObserver) Stale(string, int)                  {}
func (nopObserver) DeadLetter(string, string)          {}
func (nopObserver) Visible(string, time.Duration, int) {}
func (nopObserver) Scanned(string, int)                {}
func (nopObserver) Batch(string, int, time.Duration)   {}
func (nopObserver) Retry(string)                       {}
