package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/seen"
	"replicator/sinks/judge"
)

// Config is what New, or NewSharded for several databases, makes a sink from.
type Config struct {
	Name   string             // the sink's name in the configuration, for messages
	DSN    string             // go-sql-driver's DSN of the database that holds the views
	Tables []replicator.Table // the source's tables that the views are made from
	Logger *slog.Logger       // nil: the sink logs nothing

	// Sources are the sources that feed the sink, if there are several.
	Sources judge.Sources

	// InPlace forbids rebuilds in a second table, because several sources each fill a part of the view's table.
	InPlace bool

	// Timeout is how long a connection may go without an answer before it counts as lost; 0: the constant Timeout. The
	// DSN's readTimeout takes precedence.
	Timeout time.Duration

	// SumBytes limits, approximately, the memory for comparing a counter's sums with its states. 0 means
	// DefaultSumBytes.
	SumBytes int64

	// Columns returns the current columns of a source's table. If source is "", it may ask any source, because all of them
	// have the same columns. If Columns is nil, the sink accepts a table that treats different keys as equal, and creates
	// tables with types that accept many kinds of values.
	Columns func(ctx context.Context, source, table string) ([]SourceColumn, error)

	// Samples summarizes the values of a view's fields in a source's rows, to choose types for a new table. If Samples is
	// nil, fields that are not columns get types that accept many kinds of values.
	Samples func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)
}

// Sink keeps views in one database of a MySQL or MariaDB server. It is safe for concurrent use.
type Sink struct {
	name     string
	database string
	tables   map[string]replicator.Table
	log      *slog.Logger
	columns  func(ctx context.Context, source, table string) ([]SourceColumn, error)
	samples  func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)
	db       *sql.DB
	sumBytes int64
	sources  judge.Sources
	inPlace  bool
	few      int    // a key with more cells is written by the rules in crowd.go
	shard    string // the shard's name, if the sink is one of several; else ""

	lastChecks lastChecks // rows that each table had at its last check: see loss.go
	widening   widening
	creating   sync.Mutex // held while the sink's own tables are checked and created

	droppedLeft atomic.Bool // set once dropLeft has succeeded

	mu     sync.Mutex
	server *server // nil until the first call of askNow
}

var (
	_ replicator.Sink    = (*Sink)(nil)
	_ replicator.Sourced = (*Sink)(nil)
)

// New makes a sink. It does not connect yet. An incomplete DSN is an error.
func New(c Config) (*Sink, error) {
	dsn, err := mysql.ParseDSN(c.DSN) // the caller has checked the DSN's network, which may be a custom one
	if err != nil {
		// err is left out, because it may quote the DSN.
		return nil, fmt.Errorf("sink %s: its dsn can't be parsed. Write it as "+
			"USER:PASSWORD@tcp(HOST:PORT)/DATABASE", c.Name)
	}
	if dsn.DBName == "" {
		return nil, fmt.Errorf("sink %s: its dsn names no database. End it with /DATABASE", c.Name)
	}
	db, err := openDB(dsn, c.Timeout)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", c.Name, err)
	}
	s := &Sink{
		name: c.Name, database: dsn.DBName, tables: map[string]replicator.Table{}, log: c.Logger, columns: c.Columns,
		samples: c.Samples, db: db, sumBytes: cmp.Or(c.SumBytes, DefaultSumBytes),
		sources: c.Sources, inPlace: c.InPlace, few: fewCells,
		lastChecks: lastChecks{every: tableInterval},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, t := range c.Tables {
		s.tables[t.Name] = t
	}
	return s, nil
}

// Open implements replicator.Sink. It reads the definitions of the views' tables, and registers new views.
func (s *Sink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	srv, err := s.askAnew(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.createOwn(ctx); err != nil {
		return nil, err
	}
	if err := s.completeSwaps(ctx); err != nil {
		return nil, err
	}
	if err := s.dropLeft(ctx); err != nil {
		return nil, err
	}
	// Read the epoch before the views' ids. If a swap changes both in between, the target's first batch fails.
	epoch, err := s.readEpoch(ctx)
	if err != nil {
		return nil, err
	}
	var name string
	if err := s.db.QueryRowContext(ctx, "SELECT "+serverName).Scan(&name); err != nil {
		return nil, classify(err, "asking the server for its server_id, hostname and port")
	}
	others, err := s.sources.Others(ctx, source)
	if err != nil {
		return nil, err
	}
	t := &Target{sink: s, source: source, others: others, views: slices.Clone(views), server: srv, epoch: epoch}
	from := s.origins(source)
	var refused []error
	var marked []replicator.Standing
	for i, v := range views {
		k, err := t.openView(ctx, v, from)
		switch {
		case replicator.IsFatal(err): // the operator must fix this view's table, but the caller can open the others
			refused = append(refused, replicator.OfView(err, v.Name))
			continue
		case err != nil:
			return nil, err
		}
		k.viewIndex = i
		t.kept = append(t.kept, k)
		t.shared = t.shared || k.shared
		t.valued = t.valued || k.valued
		t.whole = t.whole || k.shared && !k.valued
		marked = append(marked, k.marked)
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	t.marks = judge.NewMarks(t.views, marked, name)
	t.guesses.Store(true)
	if !t.shared {
		if t.novelty, err = newNovelty(ctx, s.db); err != nil {
			return nil, err
		}
	}
	if t.retired, err = retiredIDs(ctx, s.db); err == nil {
		s.lastChecks.forget(t.retired)
	}
	return t, err
}

func (t *Target) openView(ctx context.Context, v *replicator.View, from *origins) (*keeper, error) {
	s := t.sink
	// Check the live table, also for a shadow. A shadow's own table may be missing, because createShadow makes it.
	if err := s.refuseGone(ctx, shadowed(v)); err != nil {
		return nil, fmt.Errorf("view %s: %w", v.ShownAs(), err)
	}
	if settingsOf(v).Create || v.Shadows != "" {
		if err := s.createTarget(ctx, shadowed(v), from); err != nil {
			return nil, fmt.Errorf("view %s: %w", shadowed(v).Name, err)
		}
	}
	switch {
	case v.Shadows != "":
		if err := s.createShadow(ctx, v, from); err != nil {
			return nil, err
		}
	case settingsOf(v).Create:
		if err := s.refitLive(ctx, v, from); err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
	}
	k, err := s.keep(ctx, v, from)
	if err == nil {
		var widened bool
		if widened, err = s.widenShadow(ctx, k, from); widened && err == nil {
			k, err = s.keep(ctx, v, from)
		}
	}
	if err == nil {
		var emptied bool
		if emptied, err = s.register(ctx, t.source, k); emptied {
			t.epoch++
		}
	}
	if err == nil {
		err = k.startsFresh(ctx, s.db, t.source)
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", shadowed(v).Name, err)
	}
	return k, nil
}

// Close implements replicator.Sink. The caller has closed all targets.
func (s *Sink) Close() error { return s.db.Close() }
