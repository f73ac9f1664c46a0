package canal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/link"
)

// Config says which server to read, and how.
type Config struct {
	Name   string // the shard's name; "" for a source without shards
	DSN    string // in the form of github.com/go-sql-driver/mysql
	Tables []replicator.Table

	ServerID    uint32        // server id of the first replication connection, from which later ones count up; 0: random
	Heartbeat   time.Duration // how often an idle server reports that it is alive; 0: 30 s
	ReadTimeout time.Duration // how long a connection may be silent before it counts as dead; 0: three heartbeats
	Logger      *slog.Logger  // nil: nothing is logged

	Layouts replicator.Layouts // stores tables' columns by digest, because positions have only digests; nil: in memory
}

const defaultHeartbeat = 30 * time.Second

// Source is one MySQL or MariaDB server. It may be used by several goroutines.
type Source struct {
	cfg Config
	*access
	run string // identifies this process of replicator: see token.Run
}

// access has the connections to one server and what was learned about it. All Sources of that server share it.
type access struct {
	mysql  *mysql.Config
	db     *sql.DB
	stats  readStats
	ids    replicaIDs
	births births
	torn   torn
	silent silence
	format atomic.Pointer[string] // what the method textual returned last (binlog_format, "" for ROW); nil: not called
	codes  binlog.CodeTables

	layouts keptLayouts
}

// births caches the time at which one binlog file was begun. Retention asks for it again and again.
type births struct {
	mu       sync.Mutex
	identity string
	file     string
	at       time.Time
}

var (
	_ replicator.Source = (*Source)(nil)
	_ replicator.Reader = (*Reader)(nil)
)

type readStats struct{ events, bytes, rows atomic.Int64 }

// tally counts what one reader has read and not yet added to the totals (readStats). Adding each event at once would
// be slow: an atomic addition takes as long as the checksum of a short event, and a transaction of one row would need
// nine of them.
type tally struct{ events, bytes, rows int64 }

// tallied is the number of events or rows after which a tally is added to the totals.
const tallied = 64

func (t *tally) event(bytes int) {
	t.events++
	t.bytes += int64(bytes)
}

// full reports whether so much was counted that it should be added to the source's statistics before the transaction
// ends.
func (t *tally) full() bool { return t.events >= tallied || t.rows >= tallied }

func (s *readStats) tell(t *tally) {
	s.events.Add(t.events)
	s.bytes.Add(t.bytes)
	s.rows.Add(t.rows)
	*t = tally{}
}

// Stats counts what the source's readers have read since the source was made.
type Stats struct {
	Events, Bytes int64
	Rows          int64 // changes delivered

	Format string // the server's binlog_format when last read; "" if it was ROW
}

// New makes a Source. It opens no connection.
func New(cfg Config) (*Source, error) {
	my, err := sqlConfig(cfg.DSN)
	if err != nil {
		return nil, err
	}
	if err := checkTables(cfg.Tables); err != nil {
		return nil, err
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = defaultHeartbeat
	}
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = 3 * cfg.Heartbeat
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := link.Open(my, link.Options{Asks: askAfter, Session: []string{
		// With this level, locking reads lock single rows and see the latest commits. It is set by a statement, because the
		// variable's name differs between servers.
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"}})
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	s := &Source{cfg: cfg, access: &access{mysql: my, db: db}, run: rand.Text()}
	s.layouts.store = cfg.Layouts
	s.db.SetMaxOpenConns(16)
	s.db.SetMaxIdleConns(4)
	s.db.SetConnMaxLifetime(10 * time.Minute)
	first := cfg.ServerID
	if first == 0 {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, err
		}
		first = max(binary.LittleEndian.Uint32(b[:])>>1, 1000)
	}
	s.ids.next = first
	return s, nil
}

func checkTables(tables []replicator.Table) error {
	for i, t := range tables {
		switch {
		case t.Database == "" || t.Table == "":
			return fmt.Errorf("table %s has no database or no name", t.Name)
		case len(t.Key) == 0:
			return fmt.Errorf("table %s has no key columns", t.Name)
		}
		for _, other := range tables[:i] {
			if other.Name == t.Name || other.Database == t.Database && other.Table == t.Table {
				return fmt.Errorf("tables %s and %s are the same", other.Name, t.Name)
			}
		}
	}
	return nil
}

// For returns a Source for other tables of the same server. Both Sources share connections: closing one closes both.
func (s *Source) For(tables []replicator.Table) (*Source, error) {
	if err := checkTables(tables); err != nil {
		return nil, err
	}
	cfg := s.cfg
	cfg.Tables = tables
	return &Source{cfg, s.access, s.run}, nil
}

// replicaIDs hands out the server ids of replication connections. Each connection needs its own, because a server ends
// the older of two with the same id. Ids are reused, because new ones for frequent short dumps would grow into the ids
// of other replicas.
type replicaIDs struct {
	mu   sync.Mutex
	next uint32
	free []uint32
}

func (r *replicaIDs) take() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		id := r.free[n-1]
		r.free = r.free[:n-1]
		return id
	}
	r.next++
	return r.next - 1
}

func (r *replicaIDs) giveBack(id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, id)
}

// Close closes the connections. No reader may be open.
func (s *Source) Close() error { return s.db.Close() }

func (s *Source) Name() string { return s.cfg.Name }

// Stats returns what was read so far.
func (s *Source) Stats() Stats {
	stats := Stats{Events: s.stats.events.Load(), Bytes: s.stats.bytes.Load(), Rows: s.stats.rows.Load()}
	if format := s.format.Load(); format != nil {
		stats.Format = *format
	}
	return stats
}

// connect returns a connection, and the server that it leads to. The address may lead to another server at any time. So
// everything that must come from one server uses one connection.
func (s *Source) connect(ctx context.Context) (*sql.Conn, server, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, server{}, classify(err)
	}
	srv, err := readServer(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, srv, err
	}
	return conn, srv, nil
}

// Latest returns the current end of the binlog. Its Order follows those of the known positions (see ask).
func (s *Source) Latest(ctx context.Context, known []replicator.Position) (replicator.Position, error) {
	return s.ask(ctx, known, func(conn *sql.Conn, r *resolver) (token, error) {
		t, err := s.latest(ctx, conn, r.server)
		t.Run = s.run // this process has read nothing beyond the end: see token.Run
		return t, err
	})
}

// Oldest returns the beginning of the oldest binlog file.
func (s *Source) Oldest(ctx context.Context, known []replicator.Position) (replicator.Position, error) {
	return s.ask(ctx, known, func(conn *sql.Conn, r *resolver) (token, error) {
		t := token{placed: placed{File: r.files[0].name, Pos: 4}}
		if !r.server.gtid() {
			return t, nil
		}
		before, err := r.server.gtidsBefore(ctx, conn, t.File)
		if err == nil {
			t.GTID = before.String()
		}
		return t, err
	})
}

// At returns the position that the operator names, by FILE:POS or by the GTID set of everything before it. For any
// other text it returns ErrFence. At does not check that FILE:POS is between two transactions, because only reading the
// file from its beginning shows that.
func (s *Source) At(ctx context.Context, text string, known []replicator.Position) (replicator.Position, error) {
	return s.ask(ctx, known, func(_ *sql.Conn, r *resolver) (token, error) {
		if isFilePos(text) {
			file, pos, err := parseFilePos(text)
			if err != nil {
				return token{}, fmt.Errorf("%w: %w", ErrFence, err)
			}
			return r.named(ctx, placed{File: file.name, Pos: pos})
		}
		set, err := gtid.Parse(r.server.flavor, text)
		if err == nil && set.Empty() {
			err = errors.New("the GTID set is empty")
		}
		if err != nil {
			return token{}, fmt.Errorf("%w: %w", ErrFence, err)
		}
		p, err := r.byGTID(ctx, token{placed: placed{File: r.files[0].name, Pos: 4}}, set)
		if err != nil {
			return token{}, err
		}
		return token{placed: placed{File: p.file.name, Pos: p.pos}, GTID: set.String(), Skip: true}, nil
	})
}

// ask returns the position of a place in the source's current log. The function `tell` names the place. If the newest
// known position is from this log, the new position's Order (its log position as a number) is in the same epoch.
// Otherwise it is in a new epoch, above all known ones.
func (s *Source) ask(ctx context.Context, known []replicator.Position,
	tell func(*sql.Conn, *resolver) (token, error)) (p replicator.Position, err error) {
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return p, err
	}
	defer conn.Close()
	r, err := newResolver(ctx, s, conn, srv)
	if err != nil {
		return p, err
	}
	t, err := tell(conn, r)
	if err != nil {
		return p, err
	}
	t.Server = srv.identity
	first, err := s.witness(ctx, srv, placed{File: t.File, Pos: 4})
	if err != nil {
		return p, err
	}
	t.Born = first.Born
	if last := newest(known); last.Token != "" {
		k, err := parseToken(last.Token)
		if err != nil {
			return p, err
		}
		d, err := r.judge(ctx, k)
		if err != nil {
			return p, err
		}
		if t.Epoch = k.Epoch; d.kinship != theSame {
			t.Epoch++
		}
	}
	if t.Epoch > maxEpoch {
		return p, errEpochs
	}
	return t.position()
}

func newest(known []replicator.Position) (last replicator.Position) {
	for _, p := range known {
		if p.Order >= last.Order && p.Token != "" {
			last = p
		}
	}
	return last
}

// Open finds the earliest of the positions on the server, and returns a reader that begins there. It reads the named
// tables, or all tables if no table is named.
func (s *Source) Open(ctx context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	if len(at) == 0 {
		return nil, errors.New("canal: Open was called without a position")
	}
	link.Renew(s.db) // new sessions, because an old one may lack a privilege that was granted since the last failure
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := s.mustLog(ctx, conn, srv); err != nil {
		return nil, err
	}
	res, err := newResolver(ctx, s, conn, srv)
	if err != nil {
		return nil, err
	}
	p, t, err := res.start(ctx, at)
	if err != nil {
		return nil, err
	}
	r := &Reader{source: s, server: srv, place: p, layouts: newLayouts()}
	if err := r.prepare(ctx, conn, t, tables); err != nil {
		return nil, err
	}
	s.warnOfFormat(ctx, conn)
	return r, nil
}

// loadTables reads the schemas of the named tables, or of all tables if none is named. If tables can't be watched, the
// error is Fatal and names all of them.
func (s *Source) loadTables(ctx context.Context, db *sql.Conn, srv server, names []string) (tables, error) {
	t := tables{byPlace: map[string]map[string]*watched{}, byName: map[string][]*watched{},
		byID: map[string]*watched{}, fold: func(s string) string { return s }}
	if srv.fold {
		t.fold = strings.ToLower
	}
	var read []replicator.Table
	var refused []error
	for _, table := range s.cfg.Tables {
		if len(names) > 0 && !slices.Contains(names, table.Name) {
			continue
		}
		if table.Pattern {
			p, err := s.loadPattern(ctx, db, srv, table)
			if replicator.IsFatal(err) {
				refused = append(refused, err)
				continue
			}
			if err != nil {
				return t, err
			}
			t.patterns = append(t.patterns, p)
			for _, w := range p.members {
				refused, read = append(refused, t.add(w)), append(read, w.Table)
			}
			continue
		}
		w := &watched{Table: table, id: table.Name}
		shape, end, err := readSchemaAt(ctx, db, srv, &w.Table)
		if err = replicator.OfTable(table.Name, classify(err)); replicator.IsFatal(err) {
			refused = append(refused, err)
			continue
		}
		if err != nil {
			return t, err
		}
		w.schema.Store(shape)
		w.end = end
		refused = append(refused, t.add(w))
		read = append(read, w.Table)
	}
	t.linkLookups()
	refused = append(refused, replicator.Fatal(errors.Join(t.unjoinable()...)), srv.leftOut(ctx, db, read))
	return t, errors.Join(refused...)
}
