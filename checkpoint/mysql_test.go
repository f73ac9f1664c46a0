package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// killLocked ends the connection that holds the store's lock, at the server.
func killLocked(t *testing.T, s *MySQL, db *sql.DB) {
	t.Helper()
	var id int64
	check(t, db.QueryRow("SELECT IS_USED_LOCK(?)", s.tables.lock).Scan(&id))
	if _, err := db.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
		t.Fatal(err)
	}
	awaitFree(t, s, db)
}

// awaitFree waits until the store's lock is free. The server frees it when the connection's thread ends, a while after
// the client closed the connection.
func awaitFree(t *testing.T, s *MySQL, db *sql.DB) {
	t.Helper()
	var free sql.NullInt64
	for free.Int64 != 1 {
		check(t, db.QueryRow("SELECT IS_FREE_LOCK(?)", s.tables.lock).Scan(&free))
	}
}

// silent is a lease that lasts although the store sends no statements to keep it.
var silent = lease{beat: time.Hour, outlives: time.Hour}

func TestLostConnectionFailsTheNextSaveAndTheOneAfterTakesTheLockAgain(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		dsn := server.DSN(servertest.Database(t, server))
		admin, err := sql.Open("mysql", dsn)
		check(t, err)
		t.Cleanup(func() { check(t, admin.Close()) })
		s, err := openMySQL(ctx, dsn, "replicator", silent)
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		save := func() error { return s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}) }
		check(t, save())

		killLocked(t, s, admin)
		if err := save(); err == nil {
			t.Fatal("saved without the lock")
		}
		check(t, save())
		if _, err := OpenMySQL(ctx, dsn, "replicator"); !errors.Is(err, ErrLocked) {
			t.Errorf("the lock was not taken again: %v", err)
		}

		killLocked(t, s, admin)
		other, err := OpenMySQL(ctx, dsn, "replicator")
		check(t, err)
		check(t, other.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
		if err := save(); err == nil {
			t.Fatal("saved without the lock")
		}
		if err := save(); !errors.Is(err, ErrLocked) {
			t.Errorf("error is %v", err)
		}
		check(t, other.Close())
		awaitFree(t, s, admin)
		check(t, save())
		equalCount(t, s, "v 1") // the store has read the letter that the other one buried meanwhile
		check(t, s.Raise(ctx, "v", "shard", []replicator.Cell{letterOf("v", 1).Cell}))
		equalLetters(t, s, "")
	})
}

func TestCallerThatGivesUpDoesNotCostTheOthersTheLock(t *testing.T) {
	server := servertest.MySQL(t)
	s, err := OpenMySQL(ctx, server.DSN(servertest.Database(t, server)), "replicator")
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := s.Save(stopped, []replicator.Checkpoint{checkpointOf("v", "", 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 2)}))
}

func TestLongRowsAreKeptInPart(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		server := servertest.Shared(t, kind)
		s, err := OpenMySQL(ctx, server.DSN(servertest.Database(t, server)), "replicator")
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		big := letterOf("v", 1)
		big.Raw = make([]byte, mostRaw+1<<20)
		big.Reason = strings.Repeat("ü", mostReason)
		check(t, s.Bury(ctx, []replicator.DeadLetter{big}))
		list, err := listed(s, "v")
		check(t, err)
		kept := mostRaw
		if kind == servers.MySQL57 {
			kept = leastPacket / 2
		}
		if len(list[0].Raw) != kept ||
			!strings.Contains(list[0].Reason, fmt.Sprintf("only the first %d of 9437184 bytes", kept)) {
			t.Errorf("kept %d bytes; reason ends %s", len(list[0].Raw), list[0].Reason[len(list[0].Reason)-80:])
		}
	})
}

func TestNewerOrDamagedRowsAreAnError(t *testing.T) {
	server := servertest.MySQL(t)
	dsn := server.DSN(servertest.Database(t, server))
	s, err := OpenMySQL(ctx, dsn, "replicator")
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	admin, err := sql.Open("mysql", dsn)
	check(t, err)
	t.Cleanup(func() { check(t, admin.Close()) })
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	for set, want := range map[string]string{"format = 2": "newer version", "format = 1, body = '{'": "damaged",
		"format = 1, body = '{}'": "damaged"} {
		_, err := admin.Exec("UPDATE replicator_checkpoints SET " + set)
		check(t, err)
		if _, err := s.Checkpoints(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", set, err)
		}
	}
}

func TestErrorsNeverShowThePassword(t *testing.T) {
	for _, dsn := range []string{"u:hunter2@tcp(127.0.0.1:1)/db", "u:hunter2@tcp(127.0.0.1:1",
		"u:hunter2@tcp(127.0.0.1:1)/", "u:hunter2@x(127.0.0.1:1)/db"} {
		_, opened := OpenMySQL(ctx, dsn, "replicator")
		_, read := ReadMySQL(ctx, dsn, "replicator")
		for _, err := range []error{opened, read} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v", err)
			}
		}
	}
}

// If the connection goes silent, the server still has the session that holds the lock. The store must end that session
// before it takes the lock again.
func TestALockWhoseConnectionWentSilentIsTakenAnew(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		k := servertest.NewLink(t, server.Addr())
		c, err := mysql.ParseDSN(server.DSN(servertest.Database(t, server)))
		check(t, err)
		c.Net, c.Addr, c.ReadTimeout = "tcp", k.Address(), time.Second
		s, err := openMySQL(ctx, c.FormatDSN(), "replicator", silent)
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		save := func() error { return s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}) }
		check(t, save())
		k.Cut()
		if err := save(); err == nil {
			t.Fatal("saved over a link that is silent")
		}
		check(t, save())
	})
}

func TestTheLockOfAProcessThatStandsStillIsFree(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		dsn := server.DSN(servertest.Database(t, server))
		still, err := openMySQL(ctx, dsn, "replicator", lease{beat: time.Hour, outlives: 3 * time.Second})
		check(t, err)
		t.Cleanup(func() { check(t, still.Close()) })
		check(t, still.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
		began := time.Now()
		other := untilFree(t, func() (replicator.Store, error) { return OpenMySQL(ctx, dsn, "replicator") })
		t.Cleanup(func() { check(t, other.Close()) })
		t.Logf("free after %s", time.Since(began))
		if err := still.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 2)}); err == nil {
			t.Error("saved without the lock")
		}
		still.signOfLife(ctx)
		select {
		case <-still.Lost():
		default:
			t.Error("a sign of life does not show that another has the lock")
		}
		if err := still.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 2)}); !errors.Is(err, ErrLocked) {
			t.Errorf("the error is %v", err)
		}
	})
}

// An idle store keeps its lock. If its session is ended, it takes the lock again, even before the next call.
func TestTheLockOfAProcessThatLivesIsKept(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		dsn := server.DSN(servertest.Database(t, server))
		admin, err := sql.Open("mysql", dsn)
		check(t, err)
		t.Cleanup(func() { check(t, admin.Close()) })
		s, err := openMySQL(ctx, dsn, "replicator", lease{beat: 100 * time.Millisecond, outlives: 2 * time.Second})
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			if _, err := OpenMySQL(ctx, dsn, "replicator"); !errors.Is(err, ErrLocked) {
				t.Fatalf("the idle store lost its lock: %v", err)
			}
		}
		var first, now sql.NullInt64
		check(t, admin.QueryRow("SELECT IS_USED_LOCK(?)", s.tables.lock).Scan(&first))
		if _, err := admin.Exec(fmt.Sprintf("KILL %d", first.Int64)); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Minute); !now.Valid || now == first; {
			if time.Now().After(deadline) {
				t.Fatal("the lock was not taken anew")
			}
			check(t, admin.QueryRow("SELECT IS_USED_LOCK(?)", s.tables.lock).Scan(&now))
		}
		check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	})
}

// Processes that start together open the parts of a store in an empty database. MySQL 9 may end some of their CREATE
// TABLE statements because of a deadlock.
func TestPartsThatAreOpenedTogetherMakeTheTablesOnce(t *testing.T) {
	server := servertest.MySQL(t)
	for range 3 {
		dsn := server.DSN(servertest.Database(t, server))
		const parts = 8
		opened := make(chan error, parts)
		for n := range parts {
			go func() {
				s, err := OpenMySQLPart(ctx, dsn, "replicator", fmt.Sprint("part ", n))
				if err == nil {
					err = s.Close()
				}
				opened <- err
			}()
		}
		for range parts {
			if err := <-opened; err != nil {
				t.Error(err)
			}
		}
	}
}
