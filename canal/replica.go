package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
)

// A server's tables may change without entries in its binlog: without log_bin, on a replica without log_replica_updates
// (MariaDB: log_slave_updates), and in databases that binlog_do_db or binlog_ignore_db exclude. A reader of the log
// can't notice these changes.

var errNoBinlog = replicator.Fatal(errors.New("the source writes no binlog. Start it with log_bin. The binlog " +
	"will lack what was written until then: `replicator verify --repair " + remedy.Views + "` corrects the views"))

// mustLog returns an error if the server's binlog can't contain the changes of the watched tables.
func (s *Source) mustLog(ctx context.Context, db querier, srv server) error {
	if !srv.logBin {
		s.silent.begins(srv.identity)
		return errNoBinlog
	}
	switch f, err := srv.unloggedReplica(ctx, db); {
	case err != nil:
		return err
	case f.Level == replicator.Fail:
		s.silent.begins(srv.identity)
		return replicator.Fatal(fmt.Errorf("the source's %s is %s; %s", f.What, f.Detail, f.Fix))
	case f.Level == replicator.Warn:
		s.cfg.Logger.Warn("the source's "+f.What+" is "+f.Detail, "fix", f.Fix)
	}
	return nil
}

// unloggedReplica warns of a replica that does not log the changes that it receives. The finding is Fail if all changes
// seem to come by replication. It is Warn if applications may write to the server, too, as to one of two servers that
// replicate each other.
func (s server) unloggedReplica(ctx context.Context, db querier) (f replicator.Finding, err error) {
	f = replicator.Finding{What: "log_replica_updates", Level: replicator.OK}
	if s.flavor == gtid.MariaDB || s.oldMySQL() {
		f.What = "log_slave_updates"
	}
	logs, err := variable(ctx, db, f.What)
	if err != nil || !isOff(logs) {
		return f, err
	}
	if replicates, err := s.replicates(ctx, db); err != nil || !replicates {
		return f, err
	}
	f.Level = replicator.Warn
	f.Detail = "OFF, and the server is a replica: the changes that it replicates are not in its binlog"
	f.Fix = "start it with " + f.What + " = ON, or read the server that it replicates"
	only, err := variable(ctx, db, "read_only")
	if err == nil && only != "" && !isOff(only) {
		f.Level = replicator.Fail
	}
	if err != nil || s.flavor != gtid.MariaDB {
		return f, err
	}
	var text string
	if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_slave_pos").Scan(&text); err != nil {
		return f, classify(err)
	}
	got, err := gtid.Parse(s.flavor, text)
	if err != nil {
		return f, err
	}
	logged, err := s.executed(ctx, db)
	if err == nil && !logged.Includes(got) { // the last transaction was replicated, not written here
		f.Level = replicator.Fail
	}
	return f, err
}

// replicates reports whether the server is a replica. It returns false if the account may not ask.
func (s server) replicates(ctx context.Context, db querier) (bool, error) {
	if s.flavor == gtid.MariaDB { // SHOW ALL SLAVES STATUS would need another privilege
		if galera, err := variable(ctx, db, "wsrep_on"); err != nil || galera != "" && !isOff(galera) {
			return err == nil, err // a Galera node logs the other nodes' writes only with log_slave_updates, like a replica
		}
		rows, err := named(ctx, db, "SHOW GLOBAL STATUS LIKE 'Slaves\\_running'")
		return err == nil && len(rows) == 1 && rows[0]["value"] != "0", err
	}
	query := "SHOW REPLICA STATUS"
	if s.oldMySQL() {
		query = "SHOW SLAVE STATUS"
	}
	channels, err := named(ctx, db, query)
	var refused *mysqlError
	if errors.As(err, &refused) {
		return false, nil
	}
	return len(channels) > 0, err
}

// leftOut refuses a table whose database the server omits from its binlog. A row's own database decides, not the
// session's.
func (s server) leftOut(ctx context.Context, db querier, tables []replicator.Table) error {
	status, err := s.binlogStatus(ctx, db)
	if err != nil {
		return err
	}
	list := func(column string) []string {
		return strings.FieldsFunc(status[column], func(r rune) bool { return r == ',' })
	}
	do, ignored := list("binlog_do_db"), list("binlog_ignore_db")
	var refused []error
	for _, t := range tables {
		in := func(names []string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, t.Database) })
		}
		if len(do) > 0 && !in(do) || len(do) == 0 && in(ignored) {
			err := replicator.Fatal(fmt.Errorf("table %s: the source leaves its database %s out of the binlog "+
				"(binlog_do_db, binlog_ignore_db). Change these settings and restart the server", t.Name, t.Database))
			refused = append(refused, replicator.OfTable(t.Name, err))
		}
	}
	return errors.Join(refused...)
}

// silence remembers that the server was seen running without logging its changes. Once the server logs again, nothing
// in its log shows this gap, except the GTIDs of a MySQL replica.
type silence struct {
	mu       sync.Mutex
	identity string
	now      bool  // when the server was last seen, it did not log its changes
	until    int64 // the number of the first binlog file seen after a gap; 0: no gap was seen
}

func (q *silence) begins(identity string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.identity, q.now = identity, true
}

// noteLogging records that the server logs its changes now; `file` is the number of its current binlog file. It returns
// the number of the first file that was seen after a gap. Before that file, changes may be missing. The result is 0 if
// no gap was seen.
func (q *silence) noteLogging(identity string, file int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.identity != identity {
		return 0
	}
	if q.now {
		q.now, q.until = false, file
	}
	return q.until
}
