package jogchat_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/examples/jogchat"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // servers are killed under the writers: the driver logs that
	lab.Main(func() int { return servertest.Run(m) })
}

// prepare creates the example's database, and opens a connection for the writers.
func prepare(t testing.TB, s *servers.Server) (db *sql.DB, dsn string) {
	t.Helper()
	_, dsn = lab.Prepare(t, s, "jogchat", strings.Join(jogchat.Schema(), ";\n"))
	db, err := sql.Open("mysql", s.DSN("jogchat"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, dsn
}

// write lets writers work until the returned function is called. They make at most two hundred steps a second, which
// leaves the CPU to the tested program. Errors are expected, because servers are killed meanwhile.
func write(t testing.TB, db *sql.DB, seed uint64, writers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			w := jogchat.NewWriter(db, seed+uint64(i), 400)
			for ctx.Err() == nil {
				_ = w.Step(ctx)
				_ = pause.For(ctx, 10*time.Millisecond)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

func verify(t testing.TB, db *sql.DB, when string) {
	t.Helper()
	report, err := jogchat.Verify(t.Context(), db, db)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Differences) > 0 {
		t.Fatalf("%s: %d tables differ from the cells:\n%s", when, len(report.Differences), strings.Join(report.Differences, "\n"))
	}
	if report.Rows == 0 {
		t.Fatalf("%s: every table is empty", when)
	}
	t.Logf("%s: %d tables, %d rows, all as the cells say", when, report.Tables, report.Rows)
}

// kills and serverKills are how many times the program and the server are killed, on each kind of server.
const (
	kills       = 6
	serverKills = 2
)

func TestEveryTableEqualsTheCellsThroughKillsOfProgramAndServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute on each server")
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		var settings []string
		rounds := kills
		if kind == servers.MySQL { // its deletes don't contain the cells' keys, so the views are often compared
			settings, rounds = []string{"--binlog-row-image=MINIMAL"}, kills/2
		}
		server := servertest.Own(t, kind, settings...)
		db, dsn := prepare(t, server)
		p := lab.Build(t, "JOGCHAT", jogchat.Config, "JOGCHAT_DSN="+dsn)
		other := p.WithNewState()
		p.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled
		stop := write(t, db, seed, 2)
		var second *lab.Running
		for n := range rounds {
			first := p.Start()
			if n == rounds/3 { // a second replicator with its own state, for a while
				second = other.Start()
			}
			lab.Pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
			if n%(kills/serverKills) == kills/serverKills-1 {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				lab.Pause(t, 200*time.Millisecond)
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				lab.Pause(t, time.Second)
			}
			first.Kill()
			if n == 2*rounds/3 {
				second.Kill()
			}
		}
		stop()
		p.CatchUp()
		verify(t, db, "after the kills")

		// A third replicator without saved state replays the whole binlog over tables that are already right. A reader
		// of users, and of the index that leads to them, sees no step back meanwhile.
		before, err := digest(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		fresh := p.WithNewState()
		looks := lab.Watch(t, func(ctx context.Context) (string, error) { return digest(ctx, db) }, func(seen string) error {
			if seen != before {
				return fmt.Errorf("seen was %s, not %s", seen, before)
			}
			return nil
		}, func() {
			t.Logf("replayed in %s", fresh.Replay(lab.MySQL{Server: server, Database: "jogchat"}.Oldest(t)).Round(time.Millisecond))
		})
		verify(t, db, fmt.Sprintf("after a replay from the oldest binlog and %d looks", looks))
	})
}

// digest returns a summary of two tables: the number of rows, and a checksum of their content.
func digest(ctx context.Context, db *sql.DB) (string, error) {
	var text string
	err := db.QueryRowContext(ctx, `SELECT CONCAT(
		(SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS(',', HEX(row_key), email)))) FROM index_users_email), ', ',
		(SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS(',', HEX(id), username, email, phone, activate)))) FROM users))`).Scan(&text)
	return text, err
}

func TestTheExampleRunsAsTheREADMESays(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		db, dsn := prepare(t, servertest.Own(t, kind))
		p := lab.Build(t, "JOGCHAT", jogchat.Config, "JOGCHAT_DSN="+dsn)
		w := jogchat.NewWriter(db, 1, 200)
		steps := func() {
			for range 500 {
				if err := w.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		steps()
		p.Run("check")
		p.CatchUp()
		verify(t, db, "after a fill")
		steps()
		p.CatchUp()
		verify(t, db, "after more cells")
	})
}
