package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// holdCommits makes commits wait after they are in the binlog and before they are visible. Otherwise this window is a
// few microseconds wide. On MariaDB, semi-synchronous replication waits for a replica that doesn't exist. Turning it
// off releases the commits. MySQL waits before it syncs its log, for a second at most.
func (b *bench) holdCommits() {
	b.letCommitsGo()
	if b.isMaria() {
		b.exec("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
			fmt.Sprintf("SET GLOBAL rpl_semi_sync_master_timeout = %d", patience.Milliseconds()),
			"SET GLOBAL rpl_semi_sync_master_enabled = ON")
		return
	}
	b.exec("SET GLOBAL sync_binlog = 0", "SET GLOBAL binlog_group_commit_sync_delay = 1000000")
}

func (b *bench) letCommitsGo() {
	b.t.Helper()
	release := "SET GLOBAL binlog_group_commit_sync_delay = 0"
	if b.isMaria() {
		release = "SET GLOBAL rpl_semi_sync_master_enabled = OFF"
	}
	if _, err := b.db.Exec(release); err != nil {
		b.t.Error(err)
	}
}

func TestWhatIsReadIncludesWhatIsNotYetVisible(t *testing.T) {
	eachSetup(t, func(t *testing.T, b *bench, _ setup) {
		b.exec("CREATE TABLE versioned (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL, KEY(k, v))",
			"CREATE TABLE placed (k INT PRIMARY KEY, body TEXT)", "INSERT INTO placed VALUES (1, 'old')",
			"INSERT INTO versioned(k, v) VALUES (1, 1)")
		src := b.configured(Config{DSN: b.account("", ""), Heartbeat: time.Second, Tables: []replicator.Table{
			{Name: "versioned", Key: []string{"k"}, Version: "v"}, {Name: "placed", Key: []string{"k"}, Body: "body"},
		}})
		x := b.read(b.open(src, b.latest(src)))
		write := func(query string) (change replicator.Change, committed chan error) {
			b.holdCommits()
			before := len(x.all())
			committed = make(chan error, 1)
			go func() {
				_, err := b.db.Exec(query)
				committed <- err
			}()
			for deadline := time.After(patience); len(x.all()) == before; {
				select {
				case <-x.arrived:
				case <-deadline:
					t.Fatal("the change did not arrive")
				}
			}
			return x.all()[before], committed
		}
		// soonVisible releases the commit after half a second, while a read waits for it. The read must not return
		// earlier. The cleanup waits until the server has answered the release, which may be after it answered the
		// commit.
		soonVisible := func() {
			gone := make(chan struct{})
			time.AfterFunc(500*time.Millisecond, func() {
				defer close(gone)
				b.letCommitsGo()
			})
			t.Cleanup(func() { <-gone })
		}

		change, committed := write("INSERT INTO versioned(k, v) VALUES (1, 2)")
		var visible int
		if err := b.db.QueryRow("SELECT MAX(v) FROM versioned").Scan(&visible); err != nil || visible != 1 {
			t.Fatalf("a plain SELECT shows version %d (%v): the commit isn't held, nothing is proved", visible, err)
		}
		soonVisible()
		other := change.Cell
		other.Key, _ = replicator.MakeKey(int64(99))
		rows, asOf, err := x.reader.Newest(testContext(t), []replicator.Cell{other, change.Cell, other}, 0)
		rows = rows[1:]
		if err != nil || asOf < change.Order || rows[0] == nil || rows[0].Version != 2 {
			t.Errorf("Newest: %+v as of %d, change at %d: %v", rows, asOf, change.Order, err)
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}

		// A row that a scan saw before its delete must not get a position after the delete.
		change, committed = write("DELETE FROM versioned WHERE v = 2")
		soonVisible()
		chunk, err := x.reader.Scan(testContext(t), "versioned", nil, "", replicator.ScanLimit{Rows: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range chunk.Rows {
			if row.Version == 2 && chunk.Low >= change.Order {
				t.Errorf("the scan shows what was deleted at %d, at %d", change.Order, chunk.Low)
			}
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}

		// The tail doesn't deliver a row written just before the reader's start, so the scan must.
		_, committed = write("INSERT INTO versioned(k, v) VALUES (1, 3)")
		soonVisible()
		late := b.open(src, b.latest(src))
		latest := false
		for chunk = (replicator.Chunk{}); !chunk.Done; { // locked rows make chunks smaller
			chunk, err = late.Scan(testContext(t), "versioned", nil, chunk.Next, replicator.ScanLimit{Rows: 10})
			if err != nil || chunk.Low < late.Start().Order {
				t.Fatalf("a scan from %d shows %d rows as of %d: %v", late.Start().Order, len(chunk.Rows), chunk.Low, err)
			}
			latest = latest || slices.ContainsFunc(chunk.Rows, func(r *replicator.Row) bool { return r.Version == 3 })
		}
		if !latest {
			t.Error("the scan does not show what was written just before the reader's start")
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}

		change, committed = write("UPDATE placed SET body = 'new' WHERE k = 1")
		var body string
		if err := b.db.QueryRow("SELECT body FROM placed").Scan(&body); err != nil || body != "old" {
			t.Fatalf("a plain SELECT shows %s (%v): the commit isn't held, nothing is proved", body, err)
		}
		soonVisible()
		chunk, err = x.reader.Scan(testContext(t), "placed", nil, "", replicator.ScanLimit{Rows: 10})
		if err != nil {
			t.Fatal(err)
		}
		// Either the scan shows the new row, or Low is before the change.
		if got := string(chunk.Rows[0].Body); got != "new" && chunk.Low >= change.Order {
			t.Errorf("the scan shows %q at %d, after the change at %d", got, chunk.Low, change.Order)
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCheckSaysHowRowsAreReadWithoutGTIDs(t *testing.T) {
	all := append(setups(), setup{name: "MySQL 8.0 without both", kind: servers.MySQL80,
		args: []string{"--performance-schema=OFF"}})
	each(t, all, func(t *testing.T, b *bench, s setup) {
		b.exec(cellDDL)
		src := b.configured(Config{DSN: b.account("", ""), Tables: []replicator.Table{cellTable()}})
		var got string
		for _, f := range src.Check(testContext(t)) {
			if f.What == "gtid_mode" {
				got = string(f.Level) + " " + f.Detail + ": " + f.Fix
			}
		}
		want := ""
		switch s.name {
		case "MySQL 8.0 without both":
			want = "fail OFF, and performance_schema does not list commits: rows can't be read"
		case "MySQL 5.7 without GTIDs":
			want = "warn OFF, and performance_schema does not list commits: reads lock rows, writes may wait"
		case "MySQL without GTIDs and Performance Schema":
			want = "warn OFF, and performance_schema does not list commits: reads lock rows, and writes may wait"
		case "MySQL without GTIDs", "MySQL 8.0 without GTIDs", "MySQL 5.7 without GTIDs, with locks of metadata":
			want = "warn OFF: set gtid_mode = ON. Otherwise a move"
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("check says %q, want %q", got, want)
		}
		if strings.Contains(got, "commits") && !strings.Contains(got, "setup_instruments") {
			t.Errorf("check names no remedy: %s", got)
		}
	})
}

// Each of several concurrent reads must include all changes up to the log position that it reports. On MariaDB, two of
// a thousand reads did not.
func TestReadsAtOnceAreEachAsOfTheirOwnPlace(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE p (id INT PRIMARY KEY, v INT)", "INSERT INTO p VALUES (1, 0)")
		src := b.source(replicator.Table{Name: "p", Key: []string{"id"}, Columns: []string{"v"}})
		r := b.open(src, b.latest(src))
		x := b.read(r)
		key, err := replicator.MakeKey(int64(1))
		if err != nil {
			t.Fatal(err)
		}
		type seen struct{ asOf, v int64 }
		var mu sync.Mutex
		var all []seen
		var readers sync.WaitGroup
		ctx, cancel := context.WithCancel(testContext(t))
		for range 6 {
			readers.Go(func() {
				for ctx.Err() == nil {
					rows, asOf, err := r.Newest(ctx, []replicator.Cell{{Table: "p", Key: key}}, 0)
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					all = append(all, seen{asOf, rows[0].Columns[0].(int64)})
					mu.Unlock()
				}
			})
		}
		for n := range 1000 {
			b.exec(fmt.Sprintf("UPDATE p SET v = %d", n+1))
		}
		cancel()
		readers.Wait()
		changes := x.upTo(b.latest(src))
		for _, s := range all {
			n := int64(0) // the changes up to s.asOf, each of which adds 1 to v
			for n < int64(len(changes)) && changes[n].Order <= s.asOf {
				n++
			}
			if s.v < n {
				t.Errorf("a read as of %s saw %d, where %d was committed", r.Locate(s.asOf), s.v, n)
			}
		}
	})
}
