package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"replicator/internal/pause"
)

// lease is how long the lock outlives its holder.
//
// The lock ends with its session at the server. The server notices at once when a process is killed. If a machine
// disappears or a process hangs, it ends the session after wait_timeout. So that timeout is short, and a statement
// every beat keeps the session of a live process. A process that was only slow finds its session gone, and does not
// write to the store without the lock.
type lease struct {
	beat     time.Duration // between two signs of life
	outlives time.Duration // wait_timeout: in whole seconds
}

// shortLease lets another process take over within some three seconds.
var shortLease = lease{beat: 500 * time.Millisecond, outlives: 3 * time.Second}

// longLease is for readers: they hold no lock, and may be slow to take rows.
var longLease = lease{outlives: time.Hour}

// settings are the statements that set up a session besides its wait_timeout: a session that hangs in the middle of a
// packet ends as soon as an idle one.
func (l lease) settings() []string {
	if l.beat == 0 {
		return nil
	}
	seconds := int(l.outlives.Seconds())
	return []string{fmt.Sprintf("SET SESSION net_read_timeout = %d, net_write_timeout = %d", seconds, seconds)}
}

// keep sends signs of life until ctx ends.
func (s *MySQL) keep(ctx context.Context) {
	for pause.For(ctx, s.lease.beat) == nil {
		s.signOfLife(ctx)
	}
}

// signOfLife keeps the session that holds the lock. If it is gone, the lock is taken again, unless another process has
// it by now: then the store is lost.
func (s *MySQL) signOfLife(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil && s.isLost() {
		return
	}
	if s.conn != nil {
		answer, cancel := context.WithTimeout(ctx, s.lease.outlives) // after that the lock is no longer ours
		_, err := s.conn.ExecContext(answer, "DO 1")
		cancel()
		if err == nil {
			return
		}
		_ = s.drop() // err has the reason, and the next steps fix it
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_ = s.attach(ctx, expectTables) // if that fails, the next call reports it
}

// drop closes the connection that held the lock.
func (s *MySQL) drop() error {
	err := discard(s.conn)
	s.conn = nil
	return err
}

// Lost is closed once another process has taken the lock. Calls then fail with ErrLocked as long as it holds it.
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
	Store  string // what is locked
	Holder string // the holder, as far as it is known
	Advice string // what to do
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoint: %s: %v (%s). %s", e.Store, ErrLocked, e.Holder, e.Advice)
}

// Unwrap makes it an ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// take takes the lock on a connection. It is the server's: GET_LOCK names are global to a server and end with the
// connection. (In a Galera cluster each node has its own: there, let the DSN name one node.)
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
	who := "its connection is not known"
	var id sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", s.tables.lock).Scan(&id); err == nil && id.Valid {
		who = fmt.Sprintf("connection %d", id.Int64)
		var host string
		// Other users' connections are visible only with PROCESS; our own always are.
		if conn.QueryRowContext(ctx, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?",
			id.Int64).Scan(&host) == nil {
			who += " from " + host
		}
	}
	return &LockedError{Store: s.tables.checkpoints, Holder: who,
		Advice: "One replicator writes to a store: stop that one, or give this one a checkpoint.table of its own"}
}

// patience is how many seconds to wait for a lock, in case the server has not yet noticed that the holder is gone. A
// store that was lost does not wait: its pipelines must end, and each of their calls would wait.
const patience = 2
