package jogchat_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/examples/jogchat"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// rebuildKills is how many times the program is killed while it rebuilds.
const rebuildKills = 6

// TestARebuildUnderAWriterIsNeverSeenHalfDone damages tables by hand, and rebuilds them while writers work and the
// program is killed repeatedly. A reader must always find an entity that exists all the time.
func TestARebuildUnderAWriterIsNeverSeenHalfDone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute on each server")
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
		db, dsn := prepare(t, servertest.Own(t, kind))
		config := strings.Replace(jogchat.Config, "[http]\n", "[rebuild]\nrate = 3000\n\n[http]\n", 1)
		config = strings.Replace(config, "[checkpoint]\n", "[checkpoint]\ninterval = \"100ms\"\n", 1)
		config = strings.Replace(config, "${JOGCHAT_LISTEN:-127.0.0.1:9190}", servertest.FreeAddress(t), 1)
		p := lab.Build(t, "JOGCHAT", config, "JOGCHAT_DSN="+dsn)
		w := jogchat.NewWriter(db, 7, 400)
		for range 2500 {
			if err := w.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		anchor(t, db)
		p.CatchUp()
		spoil(t, db)

		stop := write(t, db, 8, 2)
		watch := watchAnchor(t, db)
		running := p.Start()
		follow(t, p)
		for range rebuildKills {
			lab.Pause(t, time.Duration(100+r.IntN(500))*time.Millisecond)
			running.Kill()
			running = p.Start()
		}
		lab.Pause(t, time.Second)
		running.Kill()
		stop()
		// A separate command completes the rebuild, if it is not complete yet. After it, all tables must be right.
		p.Run("rebuild", "users", "index_users_email")
		p.CatchUp()
		looks := watch()
		verify(t, db, fmt.Sprintf("after a rebuild with %d kills, and %d looks at an entity", rebuildKills, looks))
		var left int
		err := db.QueryRow("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'jogchat' AND TABLE_NAME LIKE '%\\_\\_%'").Scan(&left)
		if err != nil || left != 0 {
			t.Errorf("%d tables of rebuilds are left (%v)", left, err)
		}
		p.Run("verify")
	})
}

// follow asks the running program for the rebuild as soon as the program answers.
func follow(t testing.TB, p *lab.Program) {
	t.Helper()
	lab.Await(t, "the program answers", func() bool {
		_, err := p.Try("status")
		return err == nil
	})
	lab.Pause(t, 500*time.Millisecond)
	go func() {
		_, _ = p.Try("rebuild", "users", "index_users_email") // fails at a kill; the next start continues the rebuild
	}()
	lab.Pause(t, 300*time.Millisecond)
}

var anchorKey = []byte("an anchor entity")

// anchor inserts an entity that never changes.
func anchor(t testing.TB, db *sql.DB) {
	t.Helper()
	_, err := db.Exec("INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (?, 'users', 1, ?)",
		anchorKey, `{"email": "anchor@example.com", "username": "anchor", "activate": true}`)
	if err != nil {
		t.Fatal(err)
	}
}

// spoil damages the tables by hand: it deletes rows, changes rows, and adds rows of entities that never existed.
func spoil(t testing.TB, db *sql.DB) {
	t.Helper()
	for _, q := range []string{
		"DELETE FROM index_users_email WHERE row_key <> ? ORDER BY row_key LIMIT 20",
		"UPDATE users SET username = 'spoilt' WHERE id <> ? ORDER BY id LIMIT 20",
	} {
		if _, err := db.Exec(q, anchorKey); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("INSERT INTO index_users_email (email, row_key) VALUES ('ghost@example.com', 'a ghost, no more')"); err != nil {
		t.Fatal(err)
	}
}

// watchAnchor repeatedly looks for the anchor by email, and for its row, until the returned function is called. That
// function returns how many times it looked.
func watchAnchor(t testing.TB, db *sql.DB) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, q := range []string{
				"SELECT 1 FROM index_users_email WHERE email = 'anchor@example.com' AND row_key = ?",
				"SELECT 1 FROM users WHERE username = 'anchor' AND id = ?",
			} {
				var one int
				if err := db.QueryRowContext(ctx, q, anchorKey).Scan(&one); errors.Is(err, sql.ErrNoRows) {
					t.Errorf("look %d: not found by %s", looks, q)
				}
			}
			looks++
			_ = pause.For(ctx, 5*time.Millisecond) // the pace leaves the CPU to the tested program
		}
	})
	return func() int { cancel(); wg.Wait(); return looks }
}
