package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"replicator/canal/gtid"
	"replicator/internal/pause"
)

// fence is what a chunk of a scan is read behind: all up to low is visible to the reads of its connection, and low is
// not before the reader's start.
//
// Both servers write a transaction to the binlog first and make it visible then: with semi-synchronous replication that
// can take as long as a replica takes to answer. What the binlog's status shows may be invisible yet. A scan that took
// it for low would lose what was committed just before the tail's start, and put a row that it saw before a delete at a
// place after the tail's look at the cell: the row would come back for good.
type fence struct {
	low  int64
	lock string // ifFree, where the server can't be asked otherwise
	end  func() // to be called when all is read
}

// settleTime is how long a scan waits for transactions that are in the binlog and not yet visible.
const settleTime = time.Minute

// fence waits until what the tail has read is visible, where the server can be asked. Otherwise what is locked is read
// only when it is free.
func (r *Reader) fence(ctx context.Context, conn *sql.Conn) (f *fence, err error) {
	f = &fence{end: func() {}}
	if r.server.flavor == gtid.MariaDB {
		return f, r.behindSnapshot(ctx, conn, f, r.start.Order)
	}
	if r.server.gtid() {
		low, before := r.history.latest()
		if before != nil {
			f.low = low
			return f, r.untilVisible(ctx, conn, before.String())
		}
	}
	f.low, err = r.end(ctx, conn)
	f.lock = ifFree
	return f, err
}

// present is a fence whose low is not before the binlog's present end. MySQL can't be asked whether that is visible:
// the GTIDs that its status shows are those that are visible already.
func (r *Reader) present(ctx context.Context, conn *sql.Conn) (f *fence, err error) {
	f = &fence{end: func() {}, lock: ifFree}
	if f.low, err = r.end(ctx, conn); err != nil || r.server.flavor != gtid.MariaDB {
		return f, err
	}
	f.lock = ""
	return f, r.behindSnapshot(ctx, conn, f, f.low)
}

// ifFree is the clause of a locking read that needs no more than SELECT, and that fails at once where a row is held. A
// transaction that is in the binlog and not yet visible holds its rows' locks, so what is free is visible. A read that
// waited while it holds other rows could be part of a deadlock, which the server ends by failing whoever changed and
// locked least: easily the application's transaction.
const ifFree = " FOR SHARE NOWAIT"

// isHeld reports whether somebody holds a row that was to be read if it is free.
func isHeld(err error) bool {
	var e *mysqlError
	return errors.As(err, &e) && (e.Number == errnoLockNowait || e.Number == errnoDeadlock ||
		e.Number == errnoLockWaitTimeout)
}

// lockPatience is how long a read is tried anew because somebody holds a row.
const lockPatience = 30 * time.Second

// untilFree tries a read of so many rows until nobody holds what it reads: each time of a quarter of them, because the
// fewer there are, the sooner they are all free.
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

// behindSnapshot begins a transaction on MariaDB, whose consistent snapshots say where in the binlog they were taken:
// at from or later.
func (r *Reader) behindSnapshot(ctx context.Context, conn *sql.Conn, f *fence, from int64) (err error) {
	end := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		_, err := conn.ExecContext(ctx, "COMMIT")
		return err
	}
	for late := time.Now().Add(settleTime); ; {
		if f.low, err = r.snapshot(ctx, conn); err == nil && f.low >= from {
			f.end = func() { _ = end() } // an error ends the connection, and the transaction with it
			return nil
		}
		if eerr := end(); err == nil {
			err = eerr
		}
		if err == nil && time.Now().After(late) {
			err = errors.New("transactions that are in the binlog are not visible after " + settleTime.String())
		}
		if err != nil {
			return err
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// snapshot begins a transaction that sees all up to low, and nothing else.
func (r *Reader) snapshot(ctx context.Context, conn *sql.Conn) (low int64, err error) {
	for _, q := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return 0, err
		}
	}
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
