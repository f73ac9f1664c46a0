package canal

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// To resolve a deadlock, the server rolls back the transaction that changed and locked least, which may well be the
// application's. So reads of the source must never be part of a deadlock. Nor may a write wait for a read, if the
// server can be read without locks.
func TestReadingMakesNoTransactionOfTheApplicationFailOrWait(t *testing.T) {
	eachSetup(t, func(t *testing.T, b *bench, s setup) {
		b.exec("CREATE TABLE versioned (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL, UNIQUE (k, v))",
			"CREATE TABLE placed (k INT PRIMARY KEY, body INT)")
		const cells = 24
		for k := range cells {
			b.exec(fmt.Sprintf("INSERT INTO placed VALUES (%d, 0)", k),
				fmt.Sprintf("INSERT INTO versioned (k, v) VALUES (%d, 1), (%d, 2)", k, k))
		}
		src := b.configured(Config{DSN: b.account("", ""), Heartbeat: time.Second, Tables: []replicator.Table{
			{Name: "versioned", Key: []string{"k"}, Version: "v"},
			{Name: "placed", Key: []string{"k"}, Columns: []string{"body"}},
		}})
		waited := b.lockWaits()
		x := b.read(b.open(src, b.latest(src)))
		ctx, cancel := context.WithTimeout(testContext(t), 10*time.Minute)
		defer cancel()
		var committed, looks, rows atomic.Int64
		enough := func() bool { return looks.Load() >= 50 && rows.Load() >= 20*cells && committed.Load() >= 50 }
		var readers sync.WaitGroup
		readers.Go(func() {
			defer cancel()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for began := time.Now(); ctx.Err() == nil && (!enough() || time.Since(began) < 2*time.Second); {
				<-tick.C
			}
		})
		readers.Go(func() {
			var all []replicator.Cell
			for k := range int64(cells) {
				key, _ := replicator.MakeKey(k)
				all = append(all, replicator.Cell{Table: "versioned", Key: key}, replicator.Cell{Table: "placed", Key: key})
			}
			for ctx.Err() == nil {
				some := []replicator.Cell{all[rand.IntN(len(all))], all[rand.IntN(len(all))], all[rand.IntN(len(all))]}
				if _, _, err := x.reader.Newest(testContext(t), some, 0); err != nil {
					t.Errorf("Newest: %v", err)
				}
				looks.Add(1)
			}
		})
		for _, table := range []string{"versioned", "placed"} {
			readers.Go(func() {
				for after := ""; ctx.Err() == nil; {
					chunk, err := x.reader.Scan(testContext(t), table, nil, after, replicator.ScanLimit{Rows: 100})
					if err != nil {
						t.Errorf("Scan of %s: %v", table, err)
						return
					}
					rows.Add(int64(chunk.Passed))
					if after = chunk.Next; chunk.Done {
						after = ""
					}
				}
			})
		}
		// Each worker changes its own cells, from the last to the first. It selects them by unique keys, so the workers
		// can't deadlock with one another.
		stop := b.load(ctx, 4, func(ctx context.Context, db *sql.DB, worker, n int) error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			for k := cells/4*(worker+1) - 1; k >= cells/4*worker; k-- {
				for _, q := range []string{
					fmt.Sprintf("DELETE FROM versioned WHERE k = %d AND v = %d", k, n+2),
					fmt.Sprintf("INSERT INTO versioned (k, v) VALUES (%d, %d)", k, n+3),
					fmt.Sprintf("UPDATE placed SET body = %d WHERE k = %d", n, k),
				} {
					if _, err := tx.ExecContext(ctx, q); err != nil {
						return fmt.Errorf("after %d transactions: %w", committed.Load(), err)
					}
				}
			}
			committed.Add(1)
			return tx.Commit()
		})
		stop()
		readers.Wait()
		x.end()
		t.Logf("%d transactions, %d looks, %d rows scanned", committed.Load(), looks.Load(), rows.Load())
		if !enough() {
			t.Error("too little happened to prove anything")
		}
		if waits := b.lockWaits() - waited; waits > 0 && !s.locks {
			t.Errorf("%d times a transaction waited for a row", waits)
		} else {
			t.Logf("%d times a transaction waited for a row", waits)
		}
	})
}

// lockWaits returns how often a transaction has waited for a row lock.
func (b *bench) lockWaits() (n int) {
	b.t.Helper()
	b.scan(b.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb\\_row\\_lock\\_waits'"), new(string), &n)
	return n
}

// After a look at the binlog, the server drops its connection only when it next writes to it. That must happen soon
// even on an idle server.
func TestALookAtTheBinlogLeavesNoConnectionBehind(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL)
		src := b.configured(Config{Tables: []replicator.Table{cellTable()}}) // heartbeats are half a minute apart
		from := b.latest(src)
		for range 5 {
			b.open(src, from)
		}
		left := 0
		for ctx := testContext(t); ; {
			err := b.db.QueryRowContext(ctx,
				"SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND db IS NULL").Scan(&left)
			if err != nil {
				t.Fatalf("%d connections are left: %v", left, err)
			}
			if left == 0 {
				return
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
}
