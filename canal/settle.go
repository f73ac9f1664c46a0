package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// settleTime is how long a scan waits for transactions that are in the binlog and not yet visible: with semi-synchronous
// replication that can last as long as a replica takes to answer.
const settleTime = time.Minute

// settle waits until everything before the reader's start is visible. The tail brings what comes after it, and the scan what
// was there before; a transaction that both servers had written to the binlog, but not committed yet, when the start was
// taken would be in neither. It returns the clause of a locking read where the server can't be asked otherwise.
func (r *Reader) settle(ctx context.Context, conn *sql.Conn) (lock string, err error) {
	if r.server.flavor == mariaFlavor {
		return "", r.settleMaria(ctx, conn)
	}
	t, err := parseToken(r.start.Token)
	if err != nil {
		return "", err
	}
	if !r.server.gtid || t.GTID == "" {
		return " " + r.server.shareLock(), nil
	}
	var late sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", t.GTID, settleTime.Seconds()).Scan(&late)
	if err != nil {
		return "", classify(err)
	}
	if late.Int64 != 0 {
		return "", fmt.Errorf("transactions before %s are not visible after %s", t, settleTime)
	}
	return "", nil
}

// settleMaria: a consistent snapshot says where in the binlog it was taken, and sees all before it.
func (r *Reader) settleMaria(ctx context.Context, conn *sql.Conn) error {
	for end := time.Now().Add(settleTime); ; {
		var visible int64
		err := r.snapshot(ctx, conn, &visible)
		if _, cerr := conn.ExecContext(ctx, "COMMIT"); err == nil {
			err = cerr
		}
		if err != nil {
			return classify(err)
		}
		if visible >= r.start.Order {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("transactions before the start are not visible after " + settleTime.String())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
