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

// fence is taken before rows are read: reads on the same connection then see every change up to the log position low,
// and perhaps later changes.
//
// Both servers write a transaction to the binlog first, and make it visible to queries afterwards. So the binlog's end
// may include transactions that are still invisible. If a scan used that end as low, it would miss them, and could
// bring back a row that one of them deletes.
//
// How a reader waits for visibility:
//
//	MariaDB                      takes a consistent snapshot, which names its log position; later reads see
//	                             everything that the snapshot sees: visibleFrom
//	MySQL, gtid_mode=ON          asks @@gtid_owned, which lists transactions being committed: settle.go
//	MySQL, metadata locks        finds these transactions in the Performance Schema: settle.go
//	MySQL 8.0.22+, neither       retries until no other session has locked the rows, with FOR SHARE NOWAIT: ifFree
//	MySQL 5.7, neither           waits for the holder of a row's lock, with LOCK IN SHARE MODE: lockToRead
//
// "Neither" means a server without gtid_mode=ON whose Performance Schema does not record metadata locks. On MySQL 8.0
// before 8.0.22, reading then fails, because a locking read needs more rights than SELECT there.
//
// The first three never delay writes of the application. The others may delay a write while they read a few rows.
//
// For a re-read of single cells (Reader.present), low is the log's end at the time of the call, even if the reader is
// an hour behind. So when the reader reaches the changes of that hour, they count as older than the re-read
// (State.Next), which saw them.
//
// For a scan, low may be before the log's end, but not before the reader's start: changes during a scan are handled
// when the log is read (pipeline/window.go).
type fence struct {
	low   int64
	lock  string // the clause that makes reads lock their rows; "" if all changes up to low are visible without locks
	waits bool   // locking reads wait until other sessions unlock the rows, instead of failing
}

// settleTime is how long a scan waits for transactions that are in the binlog but not yet visible.
const settleTime = time.Minute

// fence returns a fence for a scan. On MySQL with GTIDs, fence waits until queries see all transactions that the reader
// has read from the binlog, and low is the end of the last one. On MariaDB, low is at or after the reader's start. In
// all other cases, a scan gets the same fence as a re-read (present).
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

// present returns a fence at the binlog's current end, for a re-read. On MariaDB, the fence may be a little later.
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
		return f, fmt.Errorf("rows can't be read: MySQL %s doesn't list the transactions that are being committed, or "+
			"one of them takes longer than %s. To have them listed, %s", r.server.version, patience, settleRemedy)
	}
	return f, r.lockToRead(ctx, conn, f)
}

// ifFree makes a locking read fail at once if a row is locked. A transaction that is in the binlog but not yet visible
// still locks its rows, so the rows that are not locked show every change in the binlog. Waiting might end in a
// deadlock, for which the server might roll back the application's transaction.
const ifFree = " FOR SHARE NOWAIT"

// lockToRead makes reads after the fence lock their rows. MySQL 5.7 has no NOWAIT, so its reads wait, up to a second.
// They read few rows (atMost) and lock no gaps, so a deadlock most likely ends the read and not the application's
// transaction.
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

// settleRemedy tells the operator which settings allow reading without locks.
const settleRemedy = "set gtid_mode = ON, or performance_schema = ON and UPDATE performance_schema.setup_instruments " +
	"SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'"

// waitingRows is how many rows a scan may lock at once if the scan waits for locks of other sessions.
const waitingRows = 4

// atMost returns min(few, n) if the read may wait while it holds locks; otherwise n.
func (f *fence) atMost(few, n int) int {
	if f.waits {
		return min(few, n)
	}
	return n
}

// isHeld reports whether a locking read failed because another session has locked a row.
func isHeld(err error) bool {
	var e *mysqlError
	return errors.As(err, &e) && (e.Number == errnoLockNowait || e.Number == errnoDeadlock ||
		e.Number == errnoLockWaitTimeout)
}

// lockPatience is how long a read is retried while other sessions hold locks.
const lockPatience = 30 * time.Second

// untilFree repeats a read until no other session has locked its rows. Each attempt reads a quarter of the rows of the
// previous one, because few rows are more likely to be unlocked at the same time than many.
func untilFree(ctx context.Context, rows int, read func(rows int) error) error {
	delay := time.Millisecond
	for late := time.Now().Add(lockPatience); ; rows = max(rows/4, 1) {
		err := read(rows)
		if !isHeld(err) {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("a transaction of the application has locked a row for %s: %w", lockPatience, err)
		}
		if err := pause.For(ctx, delay/2+rand.N(delay)); err != nil {
			return err
		}
		delay = min(2*delay, 10*time.Millisecond)
	}
}

const slowCommits = ". SHOW PROCESSLIST on the source shows what delays their commits"

// untilVisible waits until MySQL's queries see the transactions in gtids.
func (r *Reader) untilVisible(ctx context.Context, conn *sql.Conn, gtids string) error {
	var late sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", gtids, settleTime.Seconds()).Scan(&late)
	if err != nil {
		return err
	}
	if late.Int64 != 0 {
		return fmt.Errorf("the binlog has the transactions %s, but queries don't see all of them after %s%s", gtids,
			settleTime, slowCommits)
	}
	return nil
}

// visibleFrom returns a log position, at or after from, up to which queries on MariaDB see everything. It takes
// consistent snapshots until one is at or after from. Rows are not read from the snapshot, because it may lack the rows
// of a table that a tool such as gh-ost has just swapped in.
func (r *Reader) visibleFrom(ctx context.Context, conn *sql.Conn, from int64) (int64, error) {
	for late := time.Now().Add(settleTime); ; {
		low, err := r.snapshot(ctx, conn)
		if err != nil || low >= from {
			return low, err
		}
		if time.Now().After(late) {
			return 0, fmt.Errorf("queries don't see all transactions of the binlog after %s%s", settleTime, slowCommits)
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

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

// snapshotReads is how often the position of a snapshot is read; the lowest answer counts. MariaDB keeps
// binlog_snapshot_% in memory that all sessions share, so an answer may be the higher position of another session's
// snapshot.
const snapshotReads = 3

// snapshotPlace asks once for the position of the session's snapshot. The answer may be too high: see snapshotReads.
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
