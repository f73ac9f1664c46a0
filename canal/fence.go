package canal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"replicator/canal/gtid"
	"replicator/internal/pause"
)

// fence precedes a read of rows: every change up to low is visible to the reads of its connection. Later changes may be
// visible, too.
//
// Both servers first write a transaction to the binlog and then make it visible. With semi-synchronous replication this
// takes as long as a replica takes to answer. So the binlog's status may include transactions that are still invisible.
// If a scan used that status as low, it would lose commits just before the tail's start. It could also put a row that
// it saw before a delete at a position after the tail's re-read of the cell: the row would come back permanently.
//
// How a reader waits for visibility:
//
//	MariaDB                      a consistent snapshot names its place in the binlog, and what it sees later reads see:
//	                             visibleFrom
//	MySQL, gtid_mode=ON          @@gtid_owned lists transactions being committed: settle.go
//	MySQL 8.0, without           the Performance Schema's metadata locks do: settle.go
//	MySQL 8.0.22, without both   FOR SHARE NOWAIT reads unlocked rows
//	MySQL 5.7, without both      LOCK IN SHARE MODE waits for the holder of a row's lock: lockToRead
//	MySQL 8.0 before 8.0.22, without both: nothing, since a locking read needs more than SELECT there
//
// No write of the application waits for the first three. For the others one may wait while a few rows are read.
//
// The low of a single cell's read (present) is the log's end at the time of the call. It is not the position that the
// tail has read up to, although that would be known without a query. The reader may be an hour behind, or may not have
// begun, so the result may be an hour newer than the tail. If as-of were the tail's position, the changes of that hour
// would be put after it: a version that was written and deleted within the hour would be shown once more, after readers
// of the view have seen its successor. With the log's end as as-of, these changes are older (State.Next), as they
// should be. So no caller must know the tail's position: re-reads after deletes and sweeps (their changes are in the
// log before the call), repairs and verify (the tail may lag), explain and dead letters (there may be no tail).
//
// Scans have many rows, and the tail handles rows that change meanwhile (pipeline/window.go). Their low may be earlier,
// but not before the reader's start.
type fence struct {
	low   int64
	lock  string // the clause of a locking read, if the server can't be asked otherwise
	waits bool   // such a read waits for the holder of a row's lock
}

// settleTime is how long a scan waits for transactions that are in the binlog and not yet visible.
const settleTime = time.Minute

// fence waits until everything that the tail has read is visible, if that is known. Otherwise it is the same as
// present.
func (r *Reader) fence(ctx context.Context, conn *sql.Conn) (f *fence, err error) {
	if r.server.flavor == gtid.MariaDB {
		f = &fence{}
		f.low, err = r.visibleFrom(ctx, conn, r.start.Order)
		return f, err
	}
	if r.server.gtid() {
		low, before := r.history.latest()
		if before != nil {
			return &fence{low: low}, r.untilVisible(ctx, conn, before.String())
		}
	}
	return r.present(ctx, conn)
}

// present is a fence whose low is not before the binlog's present end.
func (r *Reader) present(ctx context.Context, conn *sql.Conn) (f *fence, err error) {
	f = &fence{}
	if f.low, err = r.end(ctx, conn); err != nil {
		return f, err
	}
	if r.server.flavor == gtid.MariaDB {
		f.low, err = r.visibleFrom(ctx, conn, f.low)
		return f, err
	}
	patience := commitPatience
	if !r.server.locksForSelect() {
		patience = settleTime
	}
	visible, err := r.settled(ctx, conn, f.low, patience)
	switch {
	case visible || err != nil:
		return f, err
	case !r.server.locksForSelect():
		return f, fmt.Errorf("MySQL %s doesn't say which transactions are being committed, or one takes longer than %s: %s",
			r.server.version, patience, settleRemedy)
	}
	return f, r.lockToRead(ctx, conn, f)
}

// ifFree is the clause of a locking read that fails at once if a row is locked. A transaction that is in the binlog and
// not yet visible holds its rows' locks, so unlocked rows are visible. A read that waited while it holds other rows
// could be part of a deadlock. The server then ends the transaction with the fewest changes and locks: easily the
// application's.
const ifFree = " FOR SHARE NOWAIT"

// lockToRead makes reads behind the fence lock their rows, with no more rights than SELECT. MySQL 5.7 has no NOWAIT, so
// its reads wait, up to a second. They read few rows (atMost) and lock no gaps: the fewer locks they hold, the more
// likely the server ends them in a deadlock.
func (r *Reader) lockToRead(ctx context.Context, conn *sql.Conn, f *fence) error {
	if r.server.isFrom(8, 0, 0) {
		f.lock = ifFree
		return nil
	}
	f.lock, f.waits = " LOCK IN SHARE MODE", true
	for _, q := range []string{"SET SESSION innodb_lock_wait_timeout = 1",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// settleRemedy is the setting that allows reading without locks.
const settleRemedy = "set gtid_mode = ON, or performance_schema = ON and UPDATE performance_schema.setup_instruments " +
	"SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'"

// waitingRows is how many rows a scan may lock at once if it waits for others.
const waitingRows = 4

// atMost is n, or few if the read may wait for others while it holds locks.
func (f *fence) atMost(few, n int) int {
	if f.waits {
		return min(few, n)
	}
	return n
}

// isHeld reports whether another session has locked a row of a NOWAIT read.
func isHeld(err error) bool {
	var e *mysqlError
	return errors.As(err, &e) && (e.Number == errnoLockNowait || e.Number == errnoDeadlock ||
		e.Number == errnoLockWaitTimeout)
}

// lockPatience is how long a read is retried because of another session's locks.
const lockPatience = 30 * time.Second

// untilFree retries a read until no other session locks its rows: each time of a quarter of the rows, because fewer
// rows are sooner all unlocked.
func untilFree(ctx context.Context, rows int, read func(rows int) error) error {
	delay := time.Millisecond
	for late := time.Now().Add(lockPatience); ; rows = max(rows/4, 1) {
		err := read(rows)
		if !isHeld(err) {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("a transaction of the application has held a row for %s: %w", lockPatience, err)
		}
		if err := pause.For(ctx, delay/2+rand.N(delay)); err != nil {
			return err
		}
		delay = min(2*delay, 10*time.Millisecond)
	}
}

// untilVisible waits for transactions of MySQL.
func (r *Reader) untilVisible(ctx context.Context, conn *sql.Conn, gtids string) error {
	var late sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", gtids, settleTime.Seconds()).Scan(&late)
	if err != nil {
		return err
	}
	if late.Int64 != 0 {
		return fmt.Errorf("transactions before %s are not visible after %s", gtids, settleTime)
	}
	return nil
}

// visibleFrom is a log position, at from or later, up to which everything is visible on MariaDB: that of a consistent
// snapshot, which says where in the binlog it was taken. The snapshot itself is not read. If another table has replaced
// a watched one since, as gh-ost does, it may lack rows that were copied before.
func (r *Reader) visibleFrom(ctx context.Context, conn *sql.Conn, from int64) (int64, error) {
	for late := time.Now().Add(settleTime); ; {
		low, err := r.snapshot(ctx, conn)
		if err != nil || low >= from {
			return low, err
		}
		if time.Now().After(late) {
			return 0, errors.New("transactions that are in the binlog are not visible after " + settleTime.String())
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// snapshot is the position of a snapshot taken now.
func (r *Reader) snapshot(ctx context.Context, conn *sql.Conn) (low int64, err error) {
	defer func() { err = cmp.Or(err, commit(ctx, conn)) }()
	for _, q := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return 0, err
		}
	}
	low = math.MaxInt64
	for range snapshotReads {
		at, err := r.snapshotPlace(ctx, conn)
		if err != nil {
			return 0, err
		}
		low = min(low, at)
	}
	return low, nil
}

// commit ends a transaction that only read. An error ends the connection, and the transaction with it.
func commit(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// snapshotReads is how often the position of a snapshot is read. MariaDB keeps the values of binlog_snapshot_% for all
// sessions together while it shows them. If two sessions ask at once, one may see the position of the other's snapshot,
// or none. Under six sessions that asked all the time, two of a thousand answers were too high. The lowest counts.
const snapshotReads = 3

// snapshotPlace is where the session's snapshot was taken, in most cases.
func (r *Reader) snapshotPlace(ctx context.Context, conn *sql.Conn) (int64, error) {
	rows, err := named(ctx, conn, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return 0, err
	}
	at := map[string]string{}
	for _, r := range rows {
		at[strings.ToLower(r["variable_name"])] = r["value"]
	}
	file, err := parseFileName(at["binlog_snapshot_file"])
	if err != nil {
		return 0, err
	}
	var pos int64
	if _, err := fmt.Sscan(at["binlog_snapshot_position"], &pos); err != nil {
		return 0, fmt.Errorf("position of the snapshot: %w", err)
	}
	return orderOf(r.place.epoch, file.number, pos), nil
}
