package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator/internal/pause"
	"replicator/internal/servers"
)

// failoverFaults replace the source with a different server, which has its own server id, binlog files and positions.
func failoverFaults() map[string]fault {
	fits := func(p Plan) bool { return p.Store == "file" } // a store in MySQL would be in the replaced server
	return map[string]fault{
		failover: {about: "a replica with other binlog file names replaces the source, and later the source returns",
			fits: fits,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				if !w.canFailOver(ctx) {
					return nil, errSkipped
				}
				if err := w.promote(ctx, w.replica, true); err != nil {
					return nil, err
				}
				return func(ctx context.Context) error { return w.failBack(ctx, false) }, nil
			}},
		lossyFailover: {about: "a replica that lacks the last transactions replaces the source for a while",
			fits: fits, begin: loseTail},
	}
}

const (
	failover      = "source failover"
	lossyFailover = "source failover short"
)

func (p Plan) needsReplica() bool {
	for _, f := range p.Faults {
		if slices.Contains([]string{failover, lossyFailover, onReplica, fromReplica}, f.Name) {
			return true
		}
	}
	return false
}

// startReplica starts an empty server that replicates everything that the source writes from now on.
func (w *world) startReplica(ctx context.Context) (err error) {
	args := []string{"--log-bin=elsewhere"}
	if w.plan.Source.IsMariaDB() {
		args = append(args, "--log-slave-updates")
	}
	w.replica, err = servers.Start(ctx, servers.Options{Kind: w.plan.Source, Small: true, Args: args})
	if err != nil {
		return err
	}
	for _, s := range []*servers.Server{w.source, w.replica} {
		if err := forgetLog(ctx, s); err != nil {
			return err
		}
	}
	return replicate(ctx, w.replica, w.source)
}

// loseTail promotes a replica that lacks the source's last transactions, which the views may already show.
func loseTail(ctx context.Context, w *world, f Fault) (heal, error) {
	if !w.canFailOver(ctx) {
		return nil, errSkipped
	}
	if err := catchUp(ctx, w.replica, w.source); err != nil {
		return nil, err
	}
	if err := tell(ctx, w.replica, stopReplica(w.replica)...); err != nil {
		return nil, err
	}
	w.writeSome(ctx, f)
	if err := pause.For(ctx, time.Duration(f.Arg)*time.Millisecond); err != nil {
		return nil, err
	}
	w.reader.forgive() // views may have shown rows that the replica lacks, and will show older ones
	if err := w.promote(ctx, w.replica, false); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return w.failBack(ctx, true) }, nil
}

// canFailOver reports whether the original source is in use and answers, and its replica runs.
func (w *world) canFailOver(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return w.source != w.replica && w.replica.Running() && w.sourceDBs[0].PingContext(ctx) == nil
}

// promote makes a replica of the source the new source, and kills the old one. If complete is set, it first waits until
// the replica has applied all transactions. Writers wait during the switch.
func (w *world) promote(ctx context.Context, to *servers.Server, complete bool) error {
	if complete { // wait now, while writers still write, so that they stop only for the last transactions
		if err := catchUp(ctx, to, w.source); err != nil {
			return err
		}
	}
	w.load.hold.Lock()
	defer w.load.hold.Unlock()
	if complete {
		if err := catchUp(ctx, to, w.source); err != nil {
			return err
		}
		if err := tell(ctx, to, stopReplica(to)...); err != nil {
			return err
		}
	}
	if err := w.source.Kill(); err != nil {
		return err
	}
	w.source = to
	w.links["source"].move(to.Addr())
	w.links[ownSource].move(to.Addr())
	return nil
}

// failBack makes the original source the source again, once it has replicated everything from the promoted replica. If
// empty is set, failBack first deletes the original source's data, which contain transactions that the replica lacks.
func (w *world) failBack(ctx context.Context, empty bool) error {
	first := w.servers.source[w.plan.Source]
	if err := first.Restart(ctx); err != nil {
		return err
	}
	if empty {
		for part := range w.plan.Parts {
			if err := tell(ctx, first, "DROP DATABASE "+w.load.parts[part]); err != nil {
				return err
			}
		}
		if err := forgetLog(ctx, first); err != nil {
			return err
		}
		// A replica skips events with its own server id, and the promoted replica's binlog contains events that this
		// server wrote as the source. So the server needs an id that it never had, not even in earlier runs.
		w.servers.lives++
		if err := tell(ctx, first, fmt.Sprint("SET GLOBAL server_id = ", w.servers.lives<<20+first.Port)); err != nil {
			return err
		}
	}
	if err := replicate(ctx, first, w.source); err != nil {
		return err
	}
	if err := w.promote(ctx, first, true); err != nil {
		return err
	}
	if err := w.replica.Restart(ctx); err != nil {
		return err
	}
	return replicate(ctx, w.replica, first)
}

// forgetLog deletes a server's binlogs, and the GTIDs of the transactions that it has applied.
func forgetLog(ctx context.Context, s *servers.Server) error {
	if s.Kind.IsMariaDB() {
		return tell(ctx, s, "RESET MASTER", "SET GLOBAL gtid_slave_pos = ''")
	}
	return tell(ctx, s, "RESET BINARY LOGS AND GTIDS")
}

// replicate makes one server (to) a replica of a second one (from).
func replicate(ctx context.Context, to, from *servers.Server) error {
	if to.Kind.IsMariaDB() {
		return tell(ctx, to, "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos",
			fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = 'root', "+
				"MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos, "+
				"MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0", from.Port), "START SLAVE") // MariaDB 11.8 defaults to TLS
	}
	return tell(ctx, to, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, "+
		"SOURCE_USER = 'root', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1", from.Port),
		"START REPLICA")
}

func stopReplica(s *servers.Server) []string {
	if s.Kind.IsMariaDB() {
		return []string{"STOP SLAVE", "RESET SLAVE ALL"}
	}
	return []string{"STOP REPLICA", "RESET REPLICA ALL"}
}

// catchUp waits until a replica has applied every transaction that its source has committed so far.
func catchUp(ctx context.Context, to, from *servers.Server) error {
	has, wait := "SELECT @@GLOBAL.gtid_executed", "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 20)"
	if to.Kind.IsMariaDB() {
		has, wait = "SELECT @@GLOBAL.gtid_binlog_pos", "SELECT MASTER_GTID_WAIT(?, 20)"
	}
	var set string
	if err := ask(ctx, from, has, &set); err != nil {
		return err
	}
	var late int
	if err := ask(ctx, to, wait, &late, set); err != nil {
		return err
	}
	if late != 0 {
		return fmt.Errorf("the replica has not caught up with its source. It lacks some transactions of %s: %s",
			set, whyLate(ctx, to))
	}
	return nil
}

// whyLate returns the fields of a replica's replication status that explain a delay.
func whyLate(ctx context.Context, s *servers.Server) string {
	show := "SHOW REPLICA STATUS"
	if s.Kind.IsMariaDB() {
		show = "SHOW SLAVE STATUS"
	}
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err.Error()
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, show)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var said []string
	columns, err := rows.Columns()
	values := make([][]byte, len(columns))
	for err == nil && rows.Next() {
		err = rows.Scan(pointers(values)...)
		for i, name := range columns {
			if strings.Contains(name, "Error") || strings.Contains(name, "Running") || strings.Contains(name, "Gtid") {
				said = append(said, name+"="+string(values[i]))
			}
		}
	}
	return fmt.Sprint(said, err)
}

// answerTime is how long a server may take to answer the harness. A frozen server never answers, so the harness gives
// up.
const answerTime = 40 * time.Second

func ask(ctx context.Context, s *servers.Server, query string, into any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, query, args...).Scan(into)
}

// tell runs statements on a server in one session.
func tell(ctx context.Context, s *servers.Server, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}
