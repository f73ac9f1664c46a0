package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"replicator/internal/pause"
)

// lease says how long the lock outlives who holds it.
//
// The lock ends with its session at the server. Of a process that is killed the server hears so at once; where a
// machine vanishes or a process stands still it hears nothing, and ends the session after wait_timeout. So that is
// short, and a statement every beat keeps the session of a process that lives. One that was only slow finds its session
// gone, and does not write to the store without the lock.
type lease struct {
	beat     time.Duration // between two signs of life
	outlives time.Duration // wait_timeout: in whole seconds
}

// shortLease lets another process take over within some three seconds.
var shortLease = lease{beat: 500 * time.Millisecond, outlives: 3 * time.Second}

// longLease is for readers: they hold no lock, and may be slow to take what they are given.
var longLease = lease{outlives: time.Hour}

// settings are the statements that set up a session besides its wait_timeout: one that stands still in the middle of a
// packet ends as soon as one that sends nothing.
func (l lease) settings() []string {
	if l.beat == 0 {
		return nil
	}
	seconds := int(l.outlives.Seconds())
	return []string{fmt.Sprintf("SET SESSION net_read_timeout = %d, net_write_timeout = %d", seconds, seconds)}
}

// keep gives signs of life until ctx ends.
func (s *MySQL) keep(ctx context.Context) {
	for pause.For(ctx, s.lease.beat) == nil {
		s.signOfLife(ctx)
	}
}

// signOfLife keeps the session that holds the lock. If it is gone, the lock is taken anew, unless another process has
// it by now: then the store is lost.
func (s *MySQL) signOfLife(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil && s.isLost() {
		return
	}
	if s.conn != nil {
		answer, cancel := context.WithTimeout(ctx, s.lease.outlives) // later the lock is not ours any more
		_, err := s.conn.ExecContext(answer, "DO 1")
		cancel()
		if err == nil {
			return
		}
		_ = s.drop() // why is in err, which is mended by what follows
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_ = s.attach(ctx, expectTables) // where it can't be, the next call says why
}

// drop gives up the connection that held the lock.
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

// LockedError says who holds a store. It wraps ErrLocked.
type LockedError struct {
	Store  string // what is locked
	Holder string // who holds it, as far as that is known
	Advice string // what to do
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoint: %s: %v (%s). %s", e.Store, ErrLocked, e.Holder, e.Advice)
}

// Unwrap makes it an ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// take takes the lock on a connection. It is the server's: GET_LOCK names are global to a server and end with the
// connection. (Of a Galera cluster each node has its own: there, let the DSN name one node.)
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
		// Needs PROCESS to see other users' connections; ours are always to be seen.
		if conn.QueryRowContext(ctx, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?",
			id.Int64).Scan(&host) == nil {
			who += " from " + host
		}
	}
	return &LockedError{Store: s.tables.checkpoints, Holder: who,
		Advice: "One replicator writes to a store: stop that one, or give this one a checkpoint.table of its own"}
}

// patience is how many seconds a lock is waited for: the server may not have noticed yet that who held it is gone. A
// store that was lost does not wait: what runs on it is to end, and each call of it would.
const patience = 2
