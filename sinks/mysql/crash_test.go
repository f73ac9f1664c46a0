package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/mysql"
)

// crashDDL creates tables in which every row shows the version that it was made from.
var crashDDL = []string{
	"CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT UNSIGNED NOT NULL)",
	"CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))",
	"CREATE TABLE i (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (email, id))",
}

// crashTarget opens views of the tables of crashDDL.
func crashTarget(t testing.TB, sink *mysql.Sink) replicator.Target {
	t.Helper()
	return openTarget(t, sink, view("row", "r", "email"), view("index", "i", "email"), counter("c"))
}

// crashOp returns an op for a version of cell n. It adds n to the counter's sum of that version.
func crashOp(n int, version int64) replicator.Op {
	name := fmt.Sprint("version ", version)
	op := userOp(n, version, 2, name)
	op.Values = append(op.Values, replicator.Value{View: 2, Entries: []replicator.Entry{{Fields: []any{name, int64(n)}}}})
	return op
}

// agree checks that rows, index entries, sums and states show the same version of each cell. It returns the lowest
// version.
func agree(t testing.TB, db *sql.DB, target replicator.Target, cells int) int64 {
	t.Helper()
	lowest := int64(1 << 62)
	totals, sums := map[string]int{}, map[string]string{}
	for n := range cells {
		op := userOp(n, 1, 0)
		versions, err := target.Versions(t.Context(), []replicator.Cell{op.Cell})
		if err != nil {
			t.Fatal(err)
		}
		lowest = min(lowest, versions[0].Lowest)
		want := ""
		if versions[0].Lowest != replicator.NoVersion {
			want = fmt.Sprint("version ", versions[0].Lowest)
			if totals[want] += n; totals[want] != 0 {
				sums[want] = fmt.Sprint(totals[want])
			}
		}
		for _, table := range []string{"r", "i"} {
			var got sql.NullString
			var n2 int
			err := db.QueryRow("SELECT COUNT(*), MAX(email) FROM "+table+" WHERE id = ?", fmt.Appendf(nil, "user %-11d", n)).Scan(&n2, &got)
			if err != nil {
				t.Fatal(err)
			}
			if got.String != want || n2 > 1 {
				t.Fatalf("user %d: %s holds %d rows, %q; the state says %q", n, table, n2, got.String, want)
			}
		}
	}
	expectSums(t, db, "c", sums)
	return lowest
}

// applyRounds applies ever newer versions of all cells, from several lanes, until stop is closed. It goes on after
// errors, and sends to attempted after each batch. It returns the version that every lane has applied without an error,
// and the number of errors.
func applyRounds(t *testing.T, target replicator.Target, cells int, attempted chan<- struct{}, stop <-chan struct{}) (
	durable int64, failed int,
) {
	done := []int64{replicator.NoVersion, replicator.NoVersion} // by lane
	lanes := len(done)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for lane := range lanes {
		wg.Go(func() {
			for version := int64(1); ; version++ {
				var ops []replicator.Op
				for n := range cells {
					if op := crashOp(n, version); op.Cell.Key.Partition()%lanes == lane {
						ops = append(ops, op)
					}
				}
				_, err := target.Apply(context.WithoutCancel(t.Context()), ops)
				mu.Lock()
				if err != nil {
					failed++
					if replicator.IsFatal(err) {
						t.Errorf("a lost connection is fatal: %v", err)
					}
				} else {
					done[lane] = version
				}
				mu.Unlock()
				select {
				case <-stop:
					return
				case attempted <- struct{}{}:
				}
			}
		})
	}
	wg.Wait()
	return min(done[0], done[1]), failed
}

func TestLanesApplyAtTheSameTime(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, crashDDL...)
		sink := newSink(t, dsn)
		target := crashTarget(t, sink)
		attempted, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stop)
			for range 40 {
				<-attempted
			}
		}()
		const cells = 120
		durable, failed := applyRounds(t, target, cells, attempted, stop)
		if lowest := agree(t, db, target, cells); failed > 0 || lowest < durable {
			t.Errorf("version %d was applied, and %d is there, after %d errors", durable, lowest, failed)
		}
	})
}

func TestConnectionsKilledBetweenStatementsLeaveRowsAndStatesInAgreement(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, crashDDL...)
		sink := newSink(t, dsn)
		target := crashTarget(t, sink)
		attempted, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stop)
			for range 60 {
				<-attempted
				killConnections(t, db, schemaOf(t, dsn))
			}
		}()
		const cells = 60
		durable, failed := applyRounds(t, target, cells, attempted, stop)
		t.Logf("version %d is durable after %d errors", durable, failed)
		if failed == 0 {
			t.Error("no connection was killed in time")
		}
		if lowest := agree(t, db, target, cells); lowest < durable {
			t.Errorf("version %d was applied, and %d is there", durable, lowest)
		}
	})
}

// killConnections ends all connections to a database but our own.
func killConnections(t testing.TB, db *sql.DB, database string) {
	rows, err := db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID()", database)
	if err != nil {
		return // another kill ended this connection
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if rows.Scan(&id) == nil {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		db.Exec(fmt.Sprint("KILL ", id)) // the connection may have ended already
	}
}

func TestServerKilledDuringApplyLeavesRowsAndStatesInAgreement(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind)
		db, dsn := database(t, s, crashDDL...)
		sink := newSink(t, dsn)
		target := crashTarget(t, sink)
		const cells = 60
		for round := range 4 {
			attempted, stop, killed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				defer close(stop)
				for range 5 + rand.IntN(20) {
					<-attempted
				}
				killed <- s.Kill()
			}()
			durable, failed := applyRounds(t, target, cells, attempted, stop)
			if err := <-killed; err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			lowest := agree(t, db, target, cells)
			t.Logf("round %d: version %d is durable after %d errors, the lowest is %d", round, durable, failed, lowest)
			if lowest < durable {
				t.Errorf("version %d was applied, and %d is there", durable, lowest)
			}
		}
	})
}

// A batch whose context ends is rolled back or applied as a whole.
func TestCancelledApply(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, crashDDL...)
		sink := newSink(t, dsn)
		target := crashTarget(t, sink)
		const cells, versions = 40, 40
		batch := func(version int64) (ops []replicator.Op) {
			for n := range cells {
				ops = append(ops, crashOp(n, version))
			}
			return ops
		}
		for version := range int64(versions) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(4000))*time.Microsecond)
			_, err := target.Apply(ctx, batch(version))
			cancel()
			if replicator.IsFatal(err) {
				t.Errorf("a context's end is fatal: %v", err)
			}
		}
		applyAll(t, target, batch(versions)...) // the server may still be committing the last one
		if lowest := agree(t, db, target, cells); lowest != versions {
			t.Errorf("version %d was applied, and %d is there", versions, lowest)
		}
	})
}

// A replica takes over between two batches. It has the newest mark, but lacks changes that were committed after the
// mark. No statement fails and the mark does not go back, so only the server's name shows the loss.
func TestWhatAFailoverMayHaveLostBehindTheNewestMarkIsNotMarked(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			db, dsn := database(t, servertest.Own(t, kind), "CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY)")
			sink := newSink(t, dsn)
			open := func() replicator.Target {
				t.Helper()
				target, err := sink.Open(t.Context(), "", []*replicator.View{view("row", "names", "email")})
				if err != nil {
					t.Fatal(err)
				}
				return target
			}
			mark := func(target replicator.Target, at int64) error {
				return target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: at, Token: "x"}})
			}
			apply := func(target replicator.Target, n int) {
				t.Helper()
				if _, err := target.Apply(t.Context(), []replicator.Op{userOp(n, 1, 1, "a")}); err != nil {
					t.Fatal(err)
				}
			}
			target := open()
			apply(target, 1)
			if err := mark(target, 10); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "SET GLOBAL server_id = 77") // nothing was applied since the mark
			if err := mark(target, 20); err != nil {
				t.Error(err)
			}
			apply(target, 2)
			exec(t, db, "SET GLOBAL server_id = 78")
			for range 2 { // asking again does not help
				if err := mark(target, 30); !errors.Is(err, judge.ErrOtherServer) {
					t.Errorf("Mark returns %v", err)
				}
			}
			if err := mark(open(), 40); err != nil { // as the pipeline opens the views again, at the mark
				t.Error(err)
			}
		})
	}
}
