package checkpoint

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/link"
	"replicator/internal/mysqldsn"
)

var _ replicator.Store = (*MySQL)(nil)

// MySQL is a store in three tables of a MySQL or MariaDB database.
type MySQL struct {
	db     *sql.DB
	tables tables
	index  *index // index of the dead letters; entry.at is a letter's `place` in the table

	lease lease
	end   context.CancelFunc // ends the goroutine that keeps the session alive
	ended sync.WaitGroup
	lost  chan struct{} // closed once another process has the lock

	mu     sync.Mutex // admits one call at a time, because all calls share one connection
	conn   *sql.Conn  // the connection that holds the lock; nil after it was lost
	closed bool
}

// OpenMySQL opens the store in a database and takes its lock. The store has three tables, PREFIX_checkpoints,
// PREFIX_dead_letters and PREFIX_layouts, which it creates if necessary.
func OpenMySQL(ctx context.Context, dsn, prefix string) (*MySQL, error) {
	return openMySQL(ctx, dsn, prefix, shortLease)
}

// OpenMySQLPart opens one part of a store that several processes share. Each part has its own lock. Lists and counts
// cover all parts.
func OpenMySQLPart(ctx context.Context, dsn, prefix, part string) (*MySQL, error) {
	db, t, err := connect(dsn, prefix, shortLease)
	if err != nil {
		return nil, err
	}
	t.lock = lockNameOf(t.lock, part)
	return openTables(ctx, db, t, shortLease)
}

func openMySQL(ctx context.Context, dsn, prefix string, l lease) (*MySQL, error) {
	db, t, err := connect(dsn, prefix, l)
	if err != nil {
		return nil, err
	}
	return openTables(ctx, db, t, l)
}

func openTables(ctx context.Context, db *sql.DB, t tables, l lease) (*MySQL, error) {
	s := &MySQL{db: db, tables: t, index: newIndex(), lease: l, lost: make(chan struct{})}
	if err := s.attach(ctx, createTables); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	living, end := context.WithCancel(context.Background())
	s.end = end
	s.ended.Go(func() { s.keep(living) })
	return s, nil
}

// setup says whether the store's tables are created if they are missing. If they are only expected, a missing table is
// an error.
type setup uint8

const (
	expectTables setup = iota
	createTables
)

// connect makes a connection pool. It sends nothing to the server yet.
func connect(dsn, prefix string, l lease) (*sql.DB, tables, error) {
	c, err := mysqldsn.Parse(dsn)
	if err != nil {
		return nil, tables{}, errors.New("checkpoint: the DSN can't be parsed (it is not shown, because it may " +
			"contain a password)")
	}
	if c.DBName == "" {
		return nil, tables{}, errors.New("checkpoint: the DSN has no database name")
	}
	// The store sets every option that it relies on. For example, a value that doesn't fit must be an error, and times
	// must be in UTC.
	c.ParseTime, c.Loc, c.InterpolateParams, c.ClientFoundRows = true, time.UTC, false, false
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	c.Params["time_zone"] = "'+00:00'"
	c.Params["autocommit"] = "1"
	c.Logger = &mysql.NopLogger{} // the driver's errors contain everything that the driver would log
	db, err := link.Open(c, link.Options{Silence: silence, Idle: l.outlives, Session: append(l.settings(),
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", int(link.LockWait(silence).Seconds())))})
	if err != nil {
		return nil, tables{}, errors.New("checkpoint: the DSN can't be used (it is not shown, because it may " +
			"contain a password)")
	}
	return db, newTables(c.DBName, prefix), nil
}

// silence is how long the server may take to answer before the connection counts as lost, unless the DSN has a
// readTimeout. The server then still has a session that holds the lock. The next connection ends that session.
const silence = longest

// attach connects, takes the lock and reads the ids of all dead letters.
func (s *MySQL) attach(ctx context.Context, missing setup) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("checkpoint: connecting: %w", err)
	}
	if err := s.take(ctx, conn); err != nil {
		if errors.Is(err, ErrLocked) && !s.isLost() {
			close(s.lost)
		}
		return errors.Join(err, discard(conn))
	}
	index := newIndex()
	if missing == createTables {
		err = s.tables.create(ctx, conn)
	}
	if err == nil {
		err = s.tables.readIndex(ctx, conn, index)
	}
	if err != nil {
		return errors.Join(err, discard(conn))
	}
	s.conn = conn
	s.index.replace(index)
	return nil
}

// Reread reads the ids of all dead letters again, because another process saved some.
func (s *MySQL) Reread(ctx context.Context) error {
	return s.do(ctx, "reading dead letters", func(ctx context.Context, conn *sql.Conn) error {
		index := newIndex()
		if err := s.tables.readIndex(ctx, conn, index); err != nil {
			return err
		}
		s.index.replace(index)
		return nil
	})
}

// discard closes a connection, instead of returning it to the pool with its session state.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return errDiscard })
	if errors.Is(err, errDiscard) {
		err = nil
	}
	if closed := conn.Close(); err == nil && !errors.Is(closed, sql.ErrConnDone) {
		err = closed
	}
	return err
}

// do runs f on the connection that holds the lock. If f's error may mean that the connection is lost, and so the lock,
// do closes the connection, and the next call takes the lock again. do doesn't interrupt f when ctx ends: the driver
// would then close the connection, and all pipelines would lose the lock.
func (s *MySQL) do(ctx context.Context, what string, f func(ctx context.Context, conn *sql.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	if s.conn == nil {
		if err := s.attach(ctx, expectTables); err != nil {
			return err
		}
	}
	err := f(ctx, s.conn)
	if err == nil {
		return nil
	}
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		// The connection failed. We don't know whether the server ran the statement or still holds the lock.
		err = errors.Join(err, s.drop())
	}
	return fmt.Errorf("checkpoint: %s: %w", what, err)
}

// longest limits a single call, because a server that does not answer must not keep the program from stopping.
const longest = 30 * time.Second

// transact runs f in a transaction. After the commit it calls the function `applied`.
func (s *MySQL) transact(ctx context.Context, what string,
	f func(ctx context.Context, tx *sql.Tx) error, applied func()) error {
	return s.do(ctx, what, func(ctx context.Context, conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(ctx, tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		applied()
		return nil
	})
}

func (s *MySQL) Checkpoints(ctx context.Context) (all []replicator.Checkpoint, err error) {
	err = s.do(ctx, "reading checkpoints", func(ctx context.Context, conn *sql.Conn) error {
		all, err = s.tables.readCheckpoints(ctx, conn)
		return err
	})
	return all, err
}

func (s *MySQL) Save(ctx context.Context, checkpoints []replicator.Checkpoint) error {
	if err := valid(checkpoints); err != nil || len(checkpoints) == 0 {
		return err
	}
	return s.transact(ctx, "saving checkpoints", func(ctx context.Context, tx *sql.Tx) error {
		for _, c := range checkpoints {
			body, err := json.Marshal(c)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx,
				"REPLACE INTO "+s.tables.checkpoints+" (`view`, source, format, body) VALUES (?, ?, ?, ?)",
				c.View, c.Source, format, string(body)); err != nil {
				return err
			}
		}
		return nil
	}, func() {})
}

func (s *MySQL) Forget(ctx context.Context, view string) error {
	return s.transact(ctx, "forgetting checkpoints", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+s.tables.checkpoints+" WHERE `view` = ?", view)
		return err
	}, func() {})
}

func (s *MySQL) Bury(ctx context.Context, list []replicator.DeadLetter) error {
	if len(list) == 0 {
		return nil
	}
	places, ids := make([]int64, len(list)), make([]letterID, len(list))
	return s.transact(ctx, "saving dead letters", func(ctx context.Context, tx *sql.Tx) error {
		for i, d := range list {
			ids[i] = s.index.id(d.View, d.Source, d.Cell)
			place, err := s.tables.bury(ctx, tx, ids[i], d)
			if err != nil {
				return err
			}
			places[i] = place
		}
		return nil
	}, func() {
		for i, d := range list {
			s.index.put(ids[i], entry{at: places[i], view: d.View, source: d.Source})
		}
	})
}

func (s *MySQL) Raise(ctx context.Context, view, source string, cells []replicator.Cell) error {
	return s.remove(ctx, "removing dead letters", s.index.of(view, source, cells))
}

func (s *MySQL) RaiseKnown(ctx context.Context, view, source string, cell replicator.Cell, number int64) error {
	return s.removeThose(ctx, "removing a dead letter", func() []letterID {
		return s.index.idIfNumber(view, source, cell, number)
	})
}

func (s *MySQL) Drop(ctx context.Context, ids []string) (int, error) {
	known := s.index.known(ids)
	return len(known), s.remove(ctx, "dropping dead letters", known)
}

func (s *MySQL) remove(ctx context.Context, what string, ids []letterID) error {
	if len(ids) == 0 {
		return nil
	}
	return s.removeThose(ctx, what, func() []letterID { return ids })
}

// removeThose removes the dead letters that the function `choose` returns. No other call can change letters between the
// call of choose and the removal.
func (s *MySQL) removeThose(ctx context.Context, what string, choose func() []letterID) error {
	var ids []letterID
	return s.transact(ctx, what, func(ctx context.Context, tx *sql.Tx) error {
		ids = choose()
		for start := 0; start < len(ids); start += mostIDs {
			some := ids[start:min(start+mostIDs, len(ids))]
			args := make([]any, len(some))
			for i, id := range some {
				args[i] = id.String()
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+s.tables.letters+" WHERE id IN (?"+strings.Repeat(", ?",
				len(some)-1)+")", args...); err != nil {
				return err
			}
		}
		return nil
	}, func() {
		for _, id := range ids {
			s.index.take(id)
		}
	})
}

// mostIDs is how many ids one statement has: MariaDB makes a temporary table of an IN list of 1,000 or more values.
const mostIDs = 500

func (s *MySQL) List(ctx context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	return list(func(after int64) (letters []replicator.DeadLetter, last int64, err error) {
		err = s.do(ctx, "listing dead letters", func(ctx context.Context, conn *sql.Conn) error {
			letters, last, err = s.tables.page(ctx, conn, view, after)
			return err
		})
		return letters, last, err
	})
}

func (s *MySQL) Known(_ context.Context, view, source string, cell replicator.Cell) (int64, error) {
	return s.index.number(view, source, cell), nil
}

func (s *MySQL) Count(context.Context) (map[string]int, error) { return s.index.count(), nil }

// Close ends the connection, and the lock with it. Closing again does nothing.
func (s *MySQL) Close() error {
	s.end()
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.conn == nil {
		return s.db.Close()
	}
	return errors.Join(discard(s.conn), s.db.Close())
}

// lockNameOf returns the name of a store's lock. GET_LOCK accepts at most 64 characters and ignores case.
func lockNameOf(database, prefix string) string {
	return fmt.Sprintf("replicator-%x", sha256.Sum256([]byte(database+"\x00"+prefix)))[:43]
}

// errDiscard makes database/sql close a connection instead of returning it to the pool, if the function that is passed
// to `Conn.Raw` returns it.
var errDiscard = driver.ErrBadConn
