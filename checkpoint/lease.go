package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"replicator/internal/pause"
)

// lease says how soon another process can take the lock. The lock belongs to a session, which the server ends at once
// when the process is killed, but only after wait_timeout when the machine disappears. So that timeout is short, and a
// live process keeps sending statements.
type lease struct {
	beat     time.Duration // time between two statements that keep the session alive
	outlives time.Duration // the session's wait_timeout, in whole seconds
}

// shortLease lets another process take over within about three seconds.
var shortLease = lease{beat: 500 * time.Millisecond, outlives: 3 * time.Second}

// longLease is for read-only stores, which hold no lock and may read slowly.
var longLease = lease{outlives: time.Hour}

// settings returns statements that set up a session, besides the one for wait_timeout. The server applies wait_timeout
// only between packets. If a connection hangs inside a packet, these statements make the session end after the same
// time.
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
// another process has the lock by now, s.lost is closed.
func (s *MySQL) signOfLife(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil && s.isLost() {
		return
	}
	if s.conn != nil {
		answer, cancel := context.WithTimeout(ctx, s.lease.outlives) // after this time, another process may have the lock
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
	Store  string
	Holder string // such as "connection 7 from 10.0.0.5:41234"
	Advice string // what the operator can do
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoint: %s: %v (%s). %s", e.Store, ErrLocked, e.Holder, e.Advice)
}

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
// gone. A store that lost its lock to another process doesn't wait, so that its pipelines end soon.
const patience = 2
