package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"replicator/internal/pause"
)

// lease is how long the lock outlives a process that holds it.
//
// The lock belongs to a session at the server. The server ends the session at once when the process is killed. If the
// machine disappears or the process hangs, the server ends it only after wait_timeout. So that timeout is short, and a
// live process sends a statement every beat. If a process was only slow, it finds its session gone, and does not write
// without the lock.
type lease struct {
	beat     time.Duration // time between two statements that keep the session alive
	outlives time.Duration // the session's wait_timeout, in whole seconds
}

// shortLease lets another process take over within about three seconds.
var shortLease = lease{beat: 500 * time.Millisecond, outlives: 3 * time.Second}

// longLease is for read-only stores, which hold no lock and may read slowly.
var longLease = lease{outlives: time.Hour}

// settings returns further statements that set up a session, besides its wait_timeout. With these statements, a session
// that hangs inside a packet ends as soon as an idle session.
func (l lease) settings() []string {
	if l.beat == 0 {
		return nil
	}
	seconds := int(l.outlives.Seconds())
	return []string{fmt.Sprintf("SET SESSION net_read_timeout = %d, net_write_timeout = %d", seconds, seconds)}
}

func (s *MySQL) keep(ctx context.Context) {
	for pause.For(ctx, s.lease.beat) == nil {
		s.signOfLife(ctx)
	}
}

// signOfLife sends a statement on the session that holds the lock. If the session is gone, it takes the lock again. If
// another process has the lock by now, the store is lost.
func (s *MySQL) signOfLife(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil && s.isLost() {
		return
	}
	if s.conn != nil {
		answer, cancel := context.WithTimeout(ctx, s.lease.outlives) // after that, another process may have the lock
		_, err := s.conn.ExecContext(answer, "DO 1")
		cancel()
		if err == nil {
			return
		}
		_ = s.drop() // err shows that the connection is lost; attach connects again
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_ = s.attach(ctx, expectTables) // if attach fails, the store's next call reports the error
}

func (s *MySQL) drop() error {
	err := discard(s.conn)
	s.conn = nil
	return err
}

// Lost returns a channel that is closed once another process has taken the lock. Calls then fail with ErrLocked as long
// as that process holds it.
func (s *MySQL) Lost() <-chan struct{} { return s.lost }

func (s *MySQL) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// LockedError says which process holds a store. It wraps ErrLocked.
type LockedError struct {
	Store  string // the locked store
	Holder string // the holder, if known
	Advice string // what the operator can do
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoint: %s: %v (%s). %s", e.Store, ErrLocked, e.Holder, e.Advice)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// take takes the lock on a connection, with GET_LOCK. Such a lock is global on a server and ends with the connection.
// (In a Galera cluster each node has its own locks, so the DSN must name one node.)
func (s *MySQL) take(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	wait := patience
	if s.isLost() {
		wait = 0
	}
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", s.tables.lock, wait).Scan(&got); err != nil {
		return fmt.Errorf("checkpoint: taking the lock: %w", err)
	}
	if got.Int64 == 1 {
		return nil
	}
	who := "unknown connection"
	var id sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", s.tables.lock).Scan(&id); err == nil && id.Valid {
		who = fmt.Sprintf("connection %d", id.Int64)
		var host string
		// Connections of other users are visible only with the PROCESS privilege. Connections of our own user are
		// always visible.
		if conn.QueryRowContext(ctx, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?",
			id.Int64).Scan(&host) == nil {
			who += " from " + host
		}
	}
	return &LockedError{Store: s.tables.checkpoints, Holder: who,
		Advice: "Only one replicator can write to a store. Stop the other one, or set another checkpoint.table " +
			"for this one"}
}

// patience is how many seconds to wait for the lock, because the server may not have noticed yet that the holder is
// gone. A store whose lock another process has taken (Lost) does not wait: its pipelines must end, and each of their
// calls would wait.
const patience = 2
