package canal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestAnAddressThatMovedIsFollowedWhileTheOldServerLives: open connections still lead to the old server, and new
// connections lead to another server. The new server's log must not be compared with what was read from the old
// server's log.
func TestAnAddressThatMovedIsFollowedWhileTheOldServerLives(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			primary, replica := pair(t, kind)
			primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			link := servertest.NewLink(t, primary.server.Addr())
			src := primary.configured(Config{Heartbeat: time.Second, Tables: []replicator.Table{appTable()},
				DSN: strings.Replace(primary.server.DSN("app"), primary.server.Addr(), link.Address(), 1)})
			x := primary.read(primary.open(src, primary.latest(src)))
			primary.exec(fmt.Sprintf(appCell, 1))
			x.upTo(primary.latest(src))
			replica.follow(primary)
			replica.exec("FLUSH BINARY LOGS")

			link.Lead(replica.server.Addr())
			x.end() // only the goroutine that reads may call stillSame, so reading must have ended
			err := x.reader.stillSame(testContext(t))
			if err == nil || replicator.IsFatal(err) || errors.Is(err, replicator.ErrLost) ||
				!strings.Contains(err.Error(), "another server") {
				t.Errorf("of the log that was read: %v", err)
			}
			replica.exec(fmt.Sprintf(appCell, 2))
			if got := bodies(replica.changes(src, x.reader.Position(x.last()))); got != "2" {
				t.Errorf("the other server's changes: %q", got)
			}
		})
	}
}

// TestWhatAReplicaNeverGotIsRemembered: the source writes a transaction that its replica does not get. Then it becomes
// a replica of that server, and reading continues. The last transaction alone would suggest that the other server has
// everything that was read.
func TestWhatAReplicaNeverGotIsRemembered(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MariaDB1011, servers.MariaDB118} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", read in several runs: ", restarts), func(t *testing.T) {
				first, second := pair(t, kind)
				first.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
				src := first.source(appTable())
				x := first.read(first.open(src, first.latest(src)))
				first.exec(fmt.Sprintf(appCell, 1))
				second.follow(first)
				first.exec(fmt.Sprintf(appCell, 2)) // the second server never gets this transaction
				x.upTo(first.latest(src))
				if restarts {
					x.end()
					src = first.source(appTable())
					x = first.read(first.open(src, x.reader.Position(x.last())))
				}
				const others = "INSERT INTO app.cell(added_at, row_key, column_name, ref_key) " +
					"VALUES (%d, 'other', 'c', %[1]d)"
				second.exec(fmt.Sprintf(others, 103), fmt.Sprintf(others, 104))
				first.exec("SET GLOBAL gtid_slave_pos = ''")
				var at string
				first.scan(second.db.QueryRow("SELECT @@gtid_slave_pos"), &at)
				first.exec("SET GLOBAL gtid_slave_pos = '" + at + "'")
				first.replicaOf(second)
				first.follow(second)
				x.upTo(first.latest(src))
				x.end()
				end := x.reader.Position(x.last())
				if restarts { // reading continues on the same server, and still remembers the transaction
					src = first.source(appTable())
					x = first.read(first.open(src, end))
					first.exec(fmt.Sprintf(others, 205))
					x.upTo(first.latest(src))
					x.end()
				}
				_, err := second.source(appTable()).Open(testContext(t), []replicator.Position{end})
				if !replicator.IsFatal(err) || !errors.Is(err, replicator.ErrLost) {
					t.Errorf("on the server that lacks a transaction: %v", err)
				}
			})
		}
	}
}

// TestPlannedFailoversThereAndBackAreFollowed: each server writes while it is the primary, and the other server has all
// of these writes before it takes over.
func TestPlannedFailoversThereAndBackAreFollowed(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		primary, replica := pair(t, kind)
		primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := primary.source(appTable())
		at := primary.latest(src)
		for n := range 4 {
			src = primary.source(appTable())
			x := primary.read(primary.open(src, at))
			primary.exec(fmt.Sprintf(appCell, 2*n), fmt.Sprintf(appCell, 2*n+1))
			if got, want := bodies(x.upTo(primary.latest(src))), fmt.Sprintf("%d %d", 2*n, 2*n+1); got != want {
				t.Errorf("after %d failovers read %q, want %q", n, got, want)
			}
			x.end()
			at = x.reader.Position(x.last())
			if tok, _ := parseToken(at.Token); tok.Forked {
				t.Errorf("after %d failovers two transactions have one number: %s", n, at.Token)
			}
			replica.follow(primary)
			if kind.IsMariaDB() { // gtid_slave_pos lacks a primary's own writes
				var pos string
				replica.scan(replica.db.QueryRow("SELECT @@gtid_current_pos"), &pos)
				primary.exec("SET GLOBAL gtid_slave_pos = '" + pos + "'")
			}
			primary.replicaOf(replica)
			primary, replica = replica, primary
		}
	})
}

// TestAnHeirWhoseBinlogBeganLaterHasLostTheLog: a replica got its data by a copy (RESET MASTER, gtid_slave_pos). It has
// the data of every transaction that was read, but its binlog lacks these transactions.
func TestAnHeirWhoseBinlogBeganLaterHasLostTheLog(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MariaDB1011, servers.MariaDB118} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel() // each kind starts its own servers
			primary, replica := pair(t, kind)
			primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			src := primary.source(appTable())
			x := primary.read(primary.open(src, primary.latest(src)))
			primary.exec(fmt.Sprintf(appCell, 1))
			x.upTo(primary.latest(src))
			x.end()
			primary.exec(fmt.Sprintf(appCell, 2), fmt.Sprintf(appCell, 3))
			replica.follow(primary)
			var copied string
			replica.scan(replica.db.QueryRow("SELECT @@gtid_slave_pos"), &copied)
			replica.exec("RESET MASTER", "SET GLOBAL gtid_slave_pos = '"+copied+"'")
			replica.replicaOf(primary)
			primary.exec(fmt.Sprintf(appCell, 4))
			replica.follow(primary)
			replica.exec(fmt.Sprintf(appCell, 5))

			r := replica.read(replica.open(replica.source(appTable()), x.reader.Position(x.last())))
			if err := r.failure(); !replicator.IsFatal(err) || !errors.Is(err, replicator.ErrLost) ||
				!strings.Contains(err.Error(), "binlog lacks transactions") {
				t.Errorf("where the log between is not there: %v", err)
			}
			if got := r.all(); len(got) > 0 {
				t.Errorf("read %s", shown(got))
			}
		})
	}
}

// TestAReplicaThatLogsNothingOfWhatItReplicatesIsRefused: the replica has the data, but its binlog has only its own
// writes.
func TestAReplicaThatLogsNothingOfWhatItReplicatesIsRefused(t *testing.T) {
	primary, replica := pairOf(t, servers.MariaDB1011)
	primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
	src := primary.source(appTable())
	at := primary.latest(src)
	replica.follow(primary)
	_, err := replica.source(appTable()).Open(testContext(t), []replicator.Position{at})
	if !replicator.IsFatal(err) || errors.Is(err, replicator.ErrLost) ||
		!strings.Contains(fmt.Sprint(err), "log_slave_updates=ON") {
		t.Errorf("of a server whose binlog is empty: %v", err)
	}
}

// TestATransactionWithoutAGTIDIsNoProofOfAFailover: the other server has the GTIDs before the transaction, but not the
// transaction itself. A server with a later GTID has the transaction, too.
func TestATransactionWithoutAGTIDIsNoProofOfAFailover(t *testing.T) {
	first, second := pair(t, servers.MySQL)
	first.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
	src := first.source(appTable())
	at := first.latest(src)
	first.exec(fmt.Sprintf(appCell, 1))
	second.follow(first)
	log := token{}
	if err := json.Unmarshal([]byte(first.latest(src).Token), &log); err != nil {
		t.Fatal(err)
	}
	mode := func(b *bench, modes ...string) {
		for _, mode := range modes {
			b.exec("SET GLOBAL gtid_mode = " + mode)
		}
	}
	x := first.read(first.open(src, at))
	mode(first, "ON_PERMISSIVE", "OFF_PERMISSIVE")
	if err := x.failure(); err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "gtid_mode") {
		t.Errorf("when the mode was changed, reading ended with %v", err)
	}
	mode(second, "ON_PERMISSIVE")
	restarted := func() { // a restart must not forget the transaction
		x.end()
		src = first.source(appTable())
		x = first.read(first.open(src, x.reader.Position(x.last())))
		x.upTo(first.latest(src))
	}
	follows := func() error {
		_, err := second.source(appTable()).Open(testContext(t), []replicator.Position{x.reader.Position(x.last())})
		return err
	}
	restarted()
	first.exec(fmt.Sprintf(appCell, 2)) // this transaction has no GTID
	x.upTo(first.latest(src))
	refused := func(when string) {
		t.Helper()
		if err := follows(); !replicator.IsFatal(err) || !strings.Contains(fmt.Sprint(err), "have no GTIDs") {
			t.Errorf("%s, the server that lacks it may be read: %v", when, err)
		}
	}
	refused("at once")
	restarted()
	refused("after a restart")
	mode(first, "ON_PERMISSIVE")
	if err := x.failure(); err == nil {
		t.Error("when the mode was changed, reading did not end")
	}
	restarted()
	refused("with GTIDs for new transactions")

	second.exec(fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, "+
		"SOURCE_USER='root', SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE='%s', SOURCE_LOG_POS=%d, GET_SOURCE_PUBLIC_KEY=1",
		first.server.Port, log.File, log.Pos), "START REPLICA")
	first.exec(fmt.Sprintf(appCell, 3))
	x.upTo(first.latest(src))
	second.follow(first)
	if err := follows(); err != nil {
		t.Errorf("once it has a later one: %v", err)
	}
}

// TestWhatSinksHoldOfALaterEpochIsLookedAt: two positions are on one server. The later one has a higher epoch, because
// it was made after failovers to another server and back. Reading begins at the earlier position, in the higher epoch.
// Sinks may hold the changes between the positions with Orders of either epoch, so these changes are read again from
// the source.
func TestWhatSinksHoldOfALaterEpochIsLookedAt(t *testing.T) {
	read := func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := b.source(appTable())
		old := b.latest(src)
		b.exec(fmt.Sprintf(appCell, 1))
		later, err := parseToken(b.latest(src).Token)
		if err != nil {
			t.Fatal(err)
		}
		later.Epoch = 2
		mark, err := later.position()
		if err != nil {
			t.Fatal(err)
		}
		b.exec(fmt.Sprintf(appCell, 2))
		if got := b.open(src, old, mark).Start().Epoch(); got != 2 {
			t.Errorf("it is read in epoch %d", got)
		}
		if got := bodies(b.changes(src, old, mark)); got != "? 2" {
			t.Errorf("read %q", got)
		}
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) { read(t, servertest.Own(t, kind)) })
	t.Run("without GTIDs", func(t *testing.T) {
		read(t, servertest.Own(t, servers.MySQL, servers.GTIDs(servers.MySQL, false)...))
	})
}
