package canal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// in starts a server on a data directory, which may be an earlier server's, and on the port if that is not 0.
func in(t *testing.T, kind servers.Kind, dir string, port int, args ...string) *servers.Server {
	t.Helper()
	s, err := servers.Start(testContext(t), servers.Options{Kind: kind, Dir: dir, Port: port, Args: args, Small: true})
	if err != nil {
		servertest.Unavailable(t, err)
	}
	t.Cleanup(func() { _ = s.Close() }) // most servers are closed before
	return s
}

func closed(t *testing.T, s *servers.Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A source was seen running without a binlog. When it logs again, nothing in its log shows what was written in between.
func TestASourceThatWasSeenToLogNothingIsLost(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			s := in(t, kind, dir, 0)
			b := newBench(t, s)
			b.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			src := b.source(appTable())
			b.exec(fmt.Sprintf(appCell, 1))
			at := []replicator.Position{b.latest(src)}
			restart := func(args ...string) {
				closed(t, s)
				s = in(t, kind, dir, s.Port, args...)
			}
			restart("--skip-log-bin")
			_, err := src.Open(testContext(t), at)
			if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "log_bin") {
				t.Errorf("without a binlog: %v", err)
			}
			b.exec(fmt.Sprintf(appCell, 2))
			restart()
			for range 2 {
				if _, err := src.Open(testContext(t), at); !errors.Is(err, replicator.ErrLost) ||
					!strings.Contains(err.Error(), "log_bin") {
					t.Errorf("with one again: %v", err)
				}
				b.exec(fmt.Sprintf(appCell, 3), "FLUSH BINARY LOGS", "DELETE FROM app.cell WHERE ref_key = 3")
			}
			anew := b.latest(src)
			b.exec(fmt.Sprintf(appCell, 4))
			if got := bodies(b.changes(src, anew)); got != "4" {
				t.Errorf("from a position that was made since: %q", got)
			}
		})
	}
}

// TestAReplicaThatLogsNothingOfWhatItGetsIsRefused: otherwise nothing would ever arrive, without any error.
func TestAReplicaThatLogsNothingOfWhatItGetsIsRefused(t *testing.T) {
	for _, c := range []struct {
		kind servers.Kind
		args []string
		says string
	}{
		{servers.MySQL, []string{"--loose-log-replica-updates=OFF", "--loose-log-slave-updates=OFF"}, "_updates"},
		{servers.MariaDB1011, nil, "log_slave_updates"},
		{servers.MariaDB118, nil, "log_slave_updates"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			primary := newBench(t, servertest.Own(t, c.kind))
			replica := newBench(t, servertest.Own(t, c.kind, c.args...))
			src := replica.source(appTable())
			for _, b := range []*bench{primary, replica} {
				b.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
				if b.isMaria() {
					b.exec("RESET MASTER")
				} else {
					b.exec("RESET BINARY LOGS AND GTIDS", "FLUSH TABLES") // logged as a transaction, too
				}
			}
			level := func(when string, want replicator.Level) {
				t.Helper()
				got := replicator.OK
				for _, f := range src.Check(testContext(t)) {
					if strings.HasSuffix(f.What, c.says) {
						got = f.Level
					}
				}
				if got != want {
					t.Errorf("%s: check says %v, want %v", when, got, want)
				}
			}
			at := []replicator.Position{replica.latest(src)}
			level("as long as it replicates nothing", replicator.OK)
			replica.replicaOf(primary)
			primary.exec(fmt.Sprintf(appCell, 1))
			replica.has(primary)
			refused := func(when string) {
				t.Helper()
				level(when, replicator.Fail)
				_, err := src.Open(testContext(t), at)
				if !replicator.IsFatal(err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", when, err)
				}
			}
			if primary.isMaria() {
				refused("behind what it got")
				replica.exec("INSERT INTO app.cell(added_at, row_key, column_name, ref_key) VALUES (99, 'k', 'own', 1)")
			} else {
				_, err := src.Open(testContext(t), at)
				if !errors.Is(err, replicator.ErrLost) || !strings.Contains(err.Error(), "gtid_purged") {
					t.Errorf("where GTIDs tell: %v", err)
				}
			}
			level("one that others write to", replicator.Warn)
			at[0] = replica.latest(src)
			r := replica.open(src, at...)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			replica.exec("SET GLOBAL read_only = ON")
			refused("one that nobody else writes to")
		})
	}
}

// TestADatabaseThatIsLeftOutOfTheBinlogIsRefused: and only that database.
func TestADatabaseThatIsLeftOutOfTheBinlogIsRefused(t *testing.T) {
	for _, args := range [][]string{{"--binlog-ignore-db=app"}, {"--binlog-do-db=other", "--binlog-do-db=another"}} {
		b := newBench(t, servertest.Own(t, servers.MariaDB1011, args...))
		ddl := func(database string) string {
			return strings.Replace(cellDDL, "TABLE cell", "TABLE "+database+".cell", 1)
		}
		b.exec("CREATE DATABASE app", "CREATE DATABASE other", ddl("app"), ddl("other"))
		left, kept := appTable(), appTable()
		kept.Name, kept.Table, kept.Database = "kept", "cell", "other"
		src := b.source(left, kept)
		at := []replicator.Position{b.latest(src)}
		_, err := src.Open(testContext(t), at)
		says := "table " + left.Name + ": the source leaves its database app out"
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "kept") {
			t.Errorf("%v: %v", args, err)
		}
		r, err := src.Open(testContext(t), at, "kept")
		if err != nil {
			t.Fatalf("%v: a table that is logged: %v", args, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A replica made from a backup has transactions that its binlog lacks. If they were not read before, reading its binlog
// would skip them. MySQL's own replicas refuse such a server, too (error 1236).
func TestAReplicaWhoseBinlogLacksWhatWasNotReadIsRefused(t *testing.T) {
	primary, replica := pair(t, servers.MySQL)
	primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
	src := primary.source(appTable())
	x := primary.read(primary.open(src, primary.latest(src)))
	primary.exec(fmt.Sprintf(appCell, 1))
	x.upTo(primary.latest(src))
	behind := x.reader.Position(x.last())
	primary.exec(fmt.Sprintf(appCell, 2))
	x.upTo(primary.latest(src))
	x.end()
	with := x.reader.Position(x.last())
	replica.follow(primary)
	var has string
	replica.scan(replica.db.QueryRow("SELECT @@GLOBAL.gtid_executed"), &has)
	replica.exec("RESET BINARY LOGS AND GTIDS", "SET GLOBAL gtid_purged = '"+has+"'", fmt.Sprintf(appCell, 3))
	moved := replica.source(appTable())
	moved.run = src.run
	_, err := moved.Open(testContext(t), []replicator.Position{behind})
	if !errors.Is(err, replicator.ErrLost) || !strings.Contains(err.Error(), "gtid_purged") {
		t.Errorf("from before what its binlog lacks: %v", err)
	}
	if s := bodies(replica.changes(moved, with)); s != "3" {
		t.Errorf("from behind that: %q", s)
	}
}
