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

// A server may change without an entry in its binlog. It may have no binlog (log_bin is OFF). It may be a replica that
// does not log changes from its own source (log_replica_updates; on MariaDB log_slave_updates, which is OFF by
// default). Or it may omit whole databases (binlog_do_db, binlog_ignore_db). A reader of such a log sees no change, and
// can't tell.

// errNoBinlog: the server logs nothing.
var errNoBinlog = replicator.Fatal(errors.New("the source writes no binlog; start it with log_bin. What was written " +
	"meanwhile is in no binlog then: `replicator verify --repair " + remedy.Views + "` puts the views right"))

// logs refuses a server whose binlog can't contain the changes to be read.
func (s *Source) logs(ctx context.Context, db querier, srv server) error {
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

// unloggedReplica checks whether the server replicates another one and does not log these changes. It is Fail if the
// binlog can't contain the changes to be read. It is Warn if applications may write to the server itself, as to one of
// two that replicate each other.
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
	f.Detail = "OFF, and the server replicates another one: what it gets from there is not in its binlog"
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
	if err == nil && !logged.Includes(got) { // no application has written to the server itself since
		f.Level = replicator.Fail
	}
	return f, err
}

// replicates reports whether the server has a source of its own. If the account may not ask, it reports false.
func (s server) replicates(ctx context.Context, db querier) (bool, error) {
	if s.flavor == gtid.MariaDB { // SHOW ALL SLAVES STATUS would need a further right
		if galera, err := variable(ctx, db, "wsrep_on"); err != nil || galera != "" && !isOff(galera) {
			return err == nil, err // the other nodes' writes are logged like a replica's
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

// leftOut refuses a table whose database the server omits from its binlog. For rows, the table's own database decides.
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
				"(binlog_do_db, binlog_ignore_db): have it logged, and restart the server", t.Name, t.Database))
			refused = append(refused, replicator.OfTable(t.Name, err))
		}
	}
	return errors.Join(refused...)
}

// silence remembers that the server was seen to change without logging it. When it logs again, nothing shows what it
// missed: GTIDs do so only on MySQL, for a replica.
type silence struct {
	mu       sync.Mutex
	identity string
	now      bool
	until    int64 // the number of the last file when it was seen to log again; 0: it was never silent
}

// begins records that a server does not log.
func (q *silence) begins(identity string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.identity, q.now = identity, true
}

// over records that a server logs, and which file it has reached. It returns the first file after its last silence; 0
// if there was none.
func (q *silence) over(identity string, file int64) int64 {
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
