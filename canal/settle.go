package canal

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"regexp"
	"time"

	"replicator/internal/pause"
)

// MySQL first writes a transaction to the binlog and then makes it visible to queries. No statement waits until
// everything up to a log position is visible. But two lists name the transactions that are being committed, from before
// they are written until after they are visible:
//
//   - @@gtid_owned has their GTIDs, if they have any. It lists a replica's transactions from their first statement on.
//   - performance_schema.metadata_locks has their locks on COMMIT. MySQL 5.7 fills that table only if configured.
//
// So the log's end is read first, and then these lists. Everything before that end is visible once all the listed
// transactions have left the lists.

// commitPatience is how long a read waits for transactions that are being committed, before it locks rows instead. A
// commit takes as long as a disk write, or with semi-synchronous replication as long as a replica's answer.
const commitPatience = 3 * time.Second

// underCommit lists the transactions that are being committed; known is false if the server can't list them.
type underCommit func(ctx context.Context, db querier) (commits map[string]bool, known bool, err error)

// settled waits until queries see everything in MySQL's binlog before the log position `low`. It returns false if the
// server can't list the transactions that are being committed, or if a transaction takes too long.
func (r *Reader) settled(ctx context.Context, conn *sql.Conn, low int64, patience time.Duration) (bool, error) {
	asked := [...]underCommit{ownedGTIDs, commitLocks}
	var open [len(asked)]map[string]bool // for each of `asked`: transactions that all of its answers so far list
	late := time.Now().Add(patience)
	for delay := time.Millisecond; ; delay = min(2*delay, 10*time.Millisecond) {
		told := false
		for i, ask := range asked {
			now, known, err := ask(ctx, conn)
			if err != nil {
				return false, err
			}
			if !known {
				continue
			}
			if told = true; open[i] == nil {
				open[i] = now
			}
			maps.DeleteFunc(open[i], func(commit string, _ bool) bool { return !now[commit] })
			if len(open[i]) == 0 {
				return true, nil
			}
		}
		// On a replica, @@gtid_owned has a transaction long before the log does, so waiting may take long. If the reader has
		// read the log up to `low`, it is enough to wait for the transactions that the reader has read.
		if read, all := r.history.handedOut(); all != nil && read >= low {
			return true, r.untilVisible(ctx, conn, all.String())
		}
		if !told || time.Now().After(late) {
			return false, nil
		}
		if err := pause.For(ctx, delay); err != nil {
			return false, err
		}
	}
}

// ownedGTID matches NUMBER#THREAD of one transaction in @@gtid_owned, "UUID:NUMBER#THREAD:NUMBER#THREAD,…".
var ownedGTID = regexp.MustCompile(`[0-9]+#[0-9]+`)

// ownedGTIDs lists the transactions that are being committed, from @@gtid_owned. `known` is false unless every new
// transaction has a GTID (gtid_mode = ON).
func ownedGTIDs(ctx context.Context, db querier) (commits map[string]bool, known bool, err error) {
	var mode, owned string
	if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.gtid_owned").Scan(&mode, &owned); err != nil {
		return nil, false, err
	}
	commits = map[string]bool{}
	for _, commit := range ownedGTID.FindAllString(owned, -1) {
		commits[commit] = true
	}
	return commits, mode == "ON", nil
}

// commitLocks lists the transactions that are being committed, from the locks in performance_schema.metadata_locks. The
// query itself takes a metadata lock. If the result has that lock, the server records all metadata locks, and `known`
// is true.
func commitLocks(ctx context.Context, db querier) (commits map[string]bool, known bool, err error) {
	rows, err := db.QueryContext(ctx, `SELECT object_type = 'COMMIT',
			CONCAT_WS(' ', owner_thread_id, owner_event_id, object_instance_begin)
		FROM performance_schema.metadata_locks
		WHERE object_type = 'COMMIT' AND lock_type = 'INTENTION_EXCLUSIVE' AND lock_status = 'GRANTED'
			OR object_schema = 'performance_schema' AND object_name = 'metadata_locks'`)
	commits = map[string]bool{}
	if err == nil {
		var commit bool
		var lock string
		err = eachRow(rows, func() error {
			if err := rows.Scan(&commit, &lock); err != nil {
				return err
			}
			if commit {
				commits[lock] = true
			} else {
				known = true
			}
			return nil
		})
	}
	var my *mysqlError
	if errors.As(err, &my) && (my.Number == errnoTableDenied || my.Number == errnoNoSuchTable) {
		return nil, false, nil
	}
	if err != nil || !known {
		return nil, false, err
	}
	lost := ""
	err = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Performance\\_schema\\_metadata\\_lock\\_lost'").Scan(&lost, &lost)
	return commits, lost == "0", err
}
