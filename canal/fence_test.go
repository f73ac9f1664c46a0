package canal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Semi-synchronous replication with nobody to acknowledge holds a commit after it is in the binlog and before it is
// visible: the window that is else a few microseconds wide. To turn it off lets go what is held.
func (b *bench) holdCommits() {
	b.letCommitsGo()
	if b.isMaria() {
		b.exec("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
			fmt.Sprintf("SET GLOBAL rpl_semi_sync_master_timeout = %d", patience.Milliseconds()),
			"SET GLOBAL rpl_semi_sync_master_enabled = ON")
		return
	}
	b.exec(fmt.Sprintf("SET GLOBAL rpl_semi_sync_source_timeout = %d", patience.Milliseconds()),
		"SET GLOBAL rpl_semi_sync_source_enabled = ON")
}

func (b *bench) letCommitsGo() {
	b.t.Helper()
	role := "source"
	if b.isMaria() {
		role = "master"
	}
	if _, err := b.db.Exec("SET GLOBAL rpl_semi_sync_" + role + "_enabled = OFF"); err != nil {
		b.t.Error(err)
	}
}

func TestWhatIsReadIncludesWhatIsNotYetVisible(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		var args []string
		if !kind.IsMariaDB() {
			if _, err := pluginPath(); err != nil {
				t.Skip("MySQL's semi-sync plugin is not installed")
			}
			args = []string{"--plugin-load-add=semisync_source.so"}
		}
		b := newBench(t, servertest.Own(t, kind, args...))
		b.exec("CREATE TABLE versioned (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL, KEY(k, v))",
			"CREATE TABLE placed (k INT PRIMARY KEY, body TEXT)", "INSERT INTO placed VALUES (1, 'old')",
			"INSERT INTO versioned(k, v) VALUES (1, 1)")
		src := b.source(replicator.Table{Name: "versioned", Key: []string{"k"}, Version: "v"},
			replicator.Table{Name: "placed", Key: []string{"k"}, Body: "body"})
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
		// soonVisible lets the commit go while it is waited for: a look may not answer before. The server stays until it
		// has answered, which may be after the commit's own answer.
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

		// A row that a scan saw before its delete must not be put after it.
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

		// What was written just before a reader's start is not brought by its tail.
		_, committed = write("INSERT INTO versioned(k, v) VALUES (1, 3)")
		soonVisible()
		late := b.open(src, b.latest(src))
		latest := false
		for chunk = (replicator.Chunk{}); !chunk.Done; { // what is held is read by itself
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
		// Either the row is the new one, or Low says that it may be the old one.
		if got := string(chunk.Rows[0].Body); got != "new" && chunk.Low >= change.Order {
			t.Errorf("the scan shows %q at %d, after the change at %d", got, chunk.Low, change.Order)
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
	})
}

func pluginPath() (string, error) {
	dir, err := servers.CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mysql", "usr", "lib", "mysql", "plugin", "semisync_source.so")
	_, err = os.Stat(path)
	return path, err
}
