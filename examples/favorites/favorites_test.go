package favorites_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/examples/favorites"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

const kills = 3

func TestEveryViewEqualsTheRowsThroughKillsAndAReplay(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		// The program reads the columns that the updates leave out of the binlog from the source.
		server := servertest.Own(t, kind, "--binlog-row-image=MINIMAL")
		cache := lab.Redis{Server: servertest.Own(t, servers.Redis7)}
		db, dsn := lab.Prepare(t, server, "favorites", favorites.Schema)
		p := lab.Build(t, "FAVORITES", favorites.Config, "FAVORITES_DSN="+dsn, "FAVORITES_REDIS="+cache.Server.DSN("0"))
		p.Run("check")
		p.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled

		stop := write(t, server.DSN("favorites"), seed)
		for range kills {
			running := p.Start()
			lab.Pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
			running.Kill()
		}
		t.Logf("%d statements written", stop())
		p.CatchUp()
		verify(t, db, cache, "after the kills")

		// A replicator without saved state replays the whole binlog over views that are already right. No reader may
		// see a change.
		fresh := p.WithNewState()
		looks := watch(t, db, cache, func() {
			t.Logf("replayed in %s", fresh.Replay(db.Oldest(t)).Round(time.Millisecond))
		})
		t.Logf("looked %d times", looks)
		verify(t, db, cache, "after a replay from the oldest binlog")
	})
}

// write lets two writers work until the returned function is called. That function returns how much they wrote.
func write(t testing.TB, dsn string, seed uint64) (stop func() int64) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var writers []*favorites.Writer
	for i := range 2 {
		w := favorites.NewWriter(db, seed+uint64(i), 150, 60)
		writers = append(writers, w)
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = w.Step(ctx)                        // the two writers deadlock now and then
				_ = pause.For(ctx, 8*time.Millisecond) // the pace leaves the CPU to the tested program
			}
		})
	}
	return func() (written int64) {
		cancel()
		wg.Wait()
		for _, w := range writers {
			written += w.Written()
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		return written
	}
}

func verify(t testing.TB, db lab.MySQL, cache lab.Redis, when string) {
	t.Helper()
	held, differences, err := favorites.Verify(t.Context(), db, cache)
	if err != nil {
		t.Fatal(err)
	}
	if len(differences) > 0 {
		t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
	if held == 0 {
		t.Fatalf("%s: every view is empty", when)
	}
	t.Logf("%s: %d entries, all as the rows say", when, held)
}

// watch reads the views of the hot object while do runs. They must never differ from their content before do.
func watch(t testing.TB, db lab.MySQL, cache lab.Redis, do func()) int {
	t.Helper()
	look := func(ctx context.Context) (string, error) {
		rows, err := db.Rows(ctx, fmt.Sprintf("SELECT cnt FROM favorite_counter WHERE object_id = %d", favorites.Hot))
		if err != nil {
			return "", err
		}
		replies, err := cache.Do(ctx, fmt.Sprintf("ZSCORE favorites:ranking %d", favorites.Hot), fmt.Sprintf("GET favorites:count:%d", favorites.Hot),
			fmt.Sprintf("SCARD favorites:by:%d", favorites.Hot))
		return fmt.Sprint(rows, replies), err
	}
	before, err := look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lab.Watch(t, look, func(seen string) error {
		if seen != before {
			return fmt.Errorf("the hot object's views went from %s to %s", before, seen)
		}
		return nil
	}, do)
}
