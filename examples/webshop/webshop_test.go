package webshop_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/examples/webshop"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

const kills = 3

// shop is a shop's database, its views, and the program between them.
type shop struct {
	t       testing.TB
	sinks   webshop.Sinks
	program *lab.Program
	db      *sql.DB
}

func TestEveryViewEqualsTheJoinsThroughKillsAndAReplay(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := open(t, kind)
		s.program.Run("check")
		s.program.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		s.watch(func() {
			stop := s.write(seed)
			for range kills {
				running := s.program.Start()
				lab.Pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
				running.Kill()
			}
			t.Logf("%d statements written", stop())
			s.program.CatchUp()
		})
		s.verify("after the kills")

		// A replicator without saved state replays the whole binlog over views that are already right.
		fresh := s.program.WithNewState()
		s.watch(func() {
			t.Logf("replayed in %s", fresh.Replay(s.sinks.MySQL.Oldest(t)).Round(time.Millisecond))
		})
		s.verify("after a replay from the oldest binlog")

		s.program.Run("rebuild", "order_overview", "customer", "open_orders")
		s.verify("after rebuilds")
		s.program.Run("verify", "order_overview", "orders_by_city", "orders_by_sku", "order_cache", "product", "customer",
			"open_orders", "staff")
	})
}

func open(t testing.TB, kind servers.Kind) *shop {
	t.Helper()
	server := servertest.Own(t, kind)
	source, dsn := lab.Prepare(t, server, "webshop", webshop.Schema)
	s := &shop{t: t, sinks: webshop.Sinks{
		MySQL: source, Redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)},
		Elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}, Index: servertest.Name(),
	}}
	// The tests share one Elasticsearch, so the views in it need different names.
	own := strings.ReplaceAll(webshop.Config, "[views.order_search", "[views.order_search_"+s.sinks.Index)
	s.program = lab.Build(t, "WEBSHOP", own, "WEBSHOP_DSN="+dsn, "WEBSHOP_REDIS="+s.sinks.Redis.Server.DSN("0"),
		"WEBSHOP_ELASTIC="+s.sinks.Elastic.URL, "WEBSHOP_INDEX="+s.sinks.Index)
	var err error
	if s.db, err = sql.Open("mysql", server.DSN("webshop")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	if err := webshop.Begin(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	return s
}

// write lets two writers work until the returned function is called. That function returns how much they wrote.
func (s *shop) write(seed uint64) (stop func() int64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	var writers []*webshop.Writer
	for i := range 2 {
		w := webshop.NewWriter(s.db, seed+uint64(i))
		writers = append(writers, w)
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = w.Step(ctx)                         // the two writers deadlock now and then
				_ = pause.For(ctx, 10*time.Millisecond) // the pace leaves the CPU to the tested program
			}
		})
	}
	return func() (written int64) {
		cancel()
		wg.Wait()
		for _, w := range writers {
			written += w.Written()
		}
		return written
	}
}

// watch reads the hot order while do runs. It must never show an older row of the order, its customer or its company
// than before.
func (s *shop) watch(do func()) {
	s.t.Helper()
	names := []string{"rev", "customer_rev", "company_rev"}
	key := fmt.Sprintf("shop:order:%d", webshop.Hot)
	look := func(ctx context.Context) ([]string, error) {
		replies, err := s.sinks.Redis.Do(ctx, "HMGET "+key+" "+strings.Join(names, " "))
		if err != nil {
			return nil, err
		}
		var seen []string
		for _, v := range replies[0].([]any) {
			seen = append(seen, fmt.Sprint(v))
		}
		return seen, nil
	}
	newest := make([]int, len(names))
	looks := lab.Watch(s.t, look, func(seen []string) error {
		for i, text := range seen {
			n, err := strconv.Atoi(text)
			if err != nil && newest[i] > 0 || n < newest[i] {
				return fmt.Errorf("%s of the hot order went back from %d to %s", names[i], newest[i], text)
			}
			newest[i] = max(newest[i], n)
		}
		return nil
	}, do)
	s.t.Logf("looked %d times, up to %v", looks, newest)
}

func (s *shop) verify(when string) {
	s.t.Helper()
	held, differences, err := webshop.Verify(s.t.Context(), s.sinks)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(differences) > 0 {
		s.t.Fatalf("%s:\n%s\n%s", when, strings.Join(differences, "\n"), s.program.Run("deadletters", "list"))
	}
	if held == 0 {
		s.t.Fatalf("%s: every view is empty", when)
	}
	s.t.Logf("%s: %d entries, all as the joins say", when, held)
}
