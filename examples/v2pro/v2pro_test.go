package v2pro_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/examples/v2pro"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

const kills = 3

// place is the log of the accounts, its views, and the program between them.
type place struct {
	t       testing.TB
	source  lab.MySQL
	sinks   v2pro.Sinks
	elastic *servers.Server
	program *lab.Program
	apps    string // the DSN for the applications
}

func TestEveryViewEqualsTheLog(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		p := prepare(t, kind)
		p.program.Run("check")
		p.program.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		p.watch(func() {
			stop := p.write(seed)
			for range kills {
				running := p.program.Start()
				lab.Pause(t, time.Duration(200+r.IntN(700))*time.Millisecond)
				running.Kill()
			}
			t.Logf("%d commands", stop())
			p.program.CatchUp()
		})
		p.verify("after the kills")

		running := p.program.Start()
		p.hot()
		p.fallBehind()
		running.Kill()
		p.program.CatchUp()
		p.verify("after sinks that stood still")

		// A replicator without saved state replays the whole binlog over views that are already right.
		fresh := p.program.WithNewState()
		p.watch(func() {
			t.Logf("replayed in %s", fresh.Replay(p.source.Oldest(t)).Round(time.Millisecond))
		})
		p.verify("after a replay from the oldest binlog")
	})
}

func prepare(t testing.TB, kind servers.Kind) *place {
	t.Helper()
	server := servertest.Own(t, kind)
	p := &place{t: t, elastic: servertest.Shared(t, servers.Elasticsearch), apps: server.DSN("v2pro")}
	var dsn string
	p.source, dsn = lab.Prepare(t, server, "v2pro", v2pro.Schema)
	p.sinks = v2pro.Sinks{MySQL: p.source, Redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)}, Elastic: lab.Elastic{URL: p.elastic.DSN("")},
		Index: servertest.Name()}
	// The tests share one Elasticsearch, so the views in it need different names.
	own := strings.Replace(v2pro.Config, "[views.account_search]", "[views.account_search_"+p.sinks.Index+"]", 1)
	p.program = lab.Build(t, "V2PRO", own, "V2PRO_DSN="+dsn, "V2PRO_REDIS="+p.sinks.Redis.Server.DSN("0"),
		"V2PRO_ELASTIC="+p.sinks.Elastic.URL, "V2PRO_INDEX="+p.sinks.Index)
	return p
}

// write lets applications work until the returned function is called. That function returns how many commands they
// handled.
func (p *place) write(seed uint64) (stop func() int64) {
	p.t.Helper()
	db := p.open()
	ctx, cancel := context.WithCancel(p.t.Context())
	var wg sync.WaitGroup
	var apps []*v2pro.Application
	for i := range 2 {
		app := v2pro.NewApplication(db, seed+uint64(i), 60)
		apps = append(apps, app)
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := app.Step(ctx); err != nil && ctx.Err() == nil {
					p.t.Errorf("an application: %v", err)
					return
				}
				if i == 0 && ctx.Err() == nil {
					if err := app.Burst(ctx, v2pro.Hot, 2); err != nil && ctx.Err() == nil {
						p.t.Errorf("an application: %v", err)
						return
					}
				}
				_ = pause.For(ctx, 8*time.Millisecond) // the pace leaves the CPU to the tested program
			}
		})
	}
	return func() (commands int64) {
		cancel()
		wg.Wait()
		for _, app := range apps {
			commands += app.Commands()
		}
		return commands
	}
}

func (p *place) open() *sql.DB {
	p.t.Helper()
	db, err := sql.Open("mysql", p.apps)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { db.Close() })
	return db
}

// hot changes one account thousands of times a second, and waits until every sink shows its newest state.
func (p *place) hot() {
	p.t.Helper()
	const batches, batch = 10, 500
	app := v2pro.NewApplication(p.open(), 7, 1)
	began := time.Now()
	for range batches {
		if err := app.Burst(p.t.Context(), v2pro.Hot, batch); err != nil {
			p.t.Fatal(err)
		}
	}
	wrote := time.Since(began)
	newest := p.newest()
	for name, look := range p.lookers() {
		lab.Await(p.t, fmt.Sprintf("version %d of the hot account in %s\n%s", newest, name, p.program.Log(5)), func() bool {
			version, err := look(p.t.Context())
			return err == nil && version == newest
		})
	}
	p.t.Logf("hot account: %d versions in %s, %.0f a second; in every sink %s after the last", batches*batch, wrote.Round(time.Millisecond),
		batches*batch/wrote.Seconds(), (time.Since(began) - wrote).Round(time.Millisecond))
}

// fallBehind suspends Elasticsearch, and then also Redis. The remaining sinks must continue undisturbed.
func (p *place) fallBehind() {
	p.t.Helper()
	app := v2pro.NewApplication(p.open(), 8, 1)
	look := p.lookers()
	change := func(stopped string, going ...string) {
		if err := app.Burst(p.t.Context(), v2pro.Hot, 3); err != nil {
			p.t.Fatal(err)
		}
		newest := p.newest()
		for _, name := range going {
			what := fmt.Sprintf("version %d of the hot account in %s while %s stands still", newest, name, stopped)
			lab.Await(p.t, what, func() bool {
				version, err := look[name](p.t.Context())
				return err == nil && version == newest
			})
		}
	}
	stop := func(s *servers.Server) (resume func()) {
		if err := s.Suspend(); err != nil {
			p.t.Fatal(err)
		}
		resume = sync.OnceFunc(func() {
			if err := s.Resume(); err != nil {
				p.t.Error(err)
			}
		})
		p.t.Cleanup(resume) // in case the test fails before it resumes the server
		return resume
	}
	elastic := stop(p.elastic)
	change("Elasticsearch", "MySQL", "Redis")
	redis := stop(p.sinks.Redis.Server)
	change("Elasticsearch and Redis", "MySQL")
	redis()
	change("Elasticsearch", "MySQL", "Redis")
	elastic()
	change("none", "MySQL", "Redis", "Elasticsearch")
}

// newest returns the hot account's newest version.
func (p *place) newest() int64 {
	p.t.Helper()
	rows, err := p.source.Rows(p.t.Context(), "SELECT MAX(version) FROM account WHERE entity_id = '"+v2pro.Hot+"'")
	if err != nil {
		p.t.Fatal(err)
	}
	version, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return version
}

// lookers returns functions that read the hot account's version in each sink. They return 0 if a sink lacks the
// account.
func (p *place) lookers() map[string]func(context.Context) (int64, error) {
	return map[string]func(context.Context) (int64, error){
		"MySQL": func(ctx context.Context) (int64, error) {
			rows, err := p.sinks.MySQL.Rows(ctx, "SELECT version FROM account_state WHERE entity_id = '"+v2pro.Hot+"'")
			if err != nil || len(rows) == 0 {
				return 0, err
			}
			return strconv.ParseInt(rows[0][0], 10, 64)
		},
		"Redis": func(ctx context.Context) (int64, error) {
			replies, err := p.sinks.Redis.Do(ctx, "HGET v2pro:account:"+v2pro.Hot+" version")
			if err != nil || replies[0] == nil {
				return 0, err
			}
			return strconv.ParseInt(fmt.Sprint(replies[0]), 10, 64)
		},
		"Elasticsearch": func(ctx context.Context) (int64, error) {
			document, err := p.sinks.Elastic.Document(ctx, p.sinks.Index, v2pro.Hot)
			if err != nil || document == nil {
				return 0, err
			}
			return strconv.ParseInt(fmt.Sprint(document["version"].(json.Number)), 10, 64)
		},
	}
}

// watch reads the hot account in every sink while do runs. Its version must never go back. A missing document is not a
// step back, because a closed account has no document.
func (p *place) watch(do func()) {
	p.t.Helper()
	for name, look := range p.lookers() {
		rest, newest := do, int64(0)
		do = func() {
			looks := lab.Watch(p.t, look, func(version int64) error {
				if version < newest && (version != 0 || name != "Elasticsearch") {
					return fmt.Errorf("%s went back from version %d of the hot account to %d", name, newest, version)
				}
				newest = max(newest, version)
				return nil
			}, rest)
			p.t.Logf("looked at %s %d times, up to version %d", name, looks, newest)
		}
	}
	do()
}

func (p *place) verify(when string) {
	p.t.Helper()
	held, differences, err := v2pro.Verify(p.t.Context(), p.source, p.sinks)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(differences) > 0 {
		p.t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
	if held == 0 {
		p.t.Fatalf("%s: every view is empty", when)
	}
	p.t.Logf("%s: %d entries, all as the log says", when, held)
}
