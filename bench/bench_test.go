package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	builds "replicator/internal/lab" // "lab" is another type in this package
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { builds.Main(func() int { return servertest.Run(m) }) }

// quickLab returns a lab with the smallest sizes and its own servers.
func quickLab(t *testing.T, kind servers.Kind, program string, args ...string) *lab {
	t.Helper()
	o, err := parse(append([]string{"-quick", "-latency-seconds", "1", "-entities", "300"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	source := servertest.Own(t, kind, serverArgs(kind)...)
	sink := servertest.Own(t, kind, serverArgs(kind)...)
	l, err := newLab(o, source, sink, program, newScreen(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	l.start = func(_ context.Context, kind servers.Kind) (*servers.Server, error) {
		return servertest.Own(t, kind, serverArgs(kind)...), nil
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Each stage compares every row with the workload, and fails on a difference. The test ignores the figures.
func TestEveryStageEndsWithTheRightRows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it for each stage")
	}
	t.Parallel()
	program := linked(t)
	l := quickLab(t, servers.MySQL, program)
	// TestHashesAndDocumentsEndAsTheWorkloadSays covers redis and elastic.
	l.stages = slices.DeleteFunc(l.stages, func(s stage) bool { return s.name == "redis" || s.name == "elastic" })
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	entities := 0
	for _, number := range l.workload.newest(l.cells) {
		if number >= 0 {
			entities++
		}
	}
	checkRows(t, l, map[string]int{
		"catch-up": entities, "fill": entities,
		"latency": l.entities, "latency-redis": l.entities, // each is written once, some twice
		"latency-both-mysql": l.entities, "latency-both-redis": l.entities,
	})
}

func TestTransactionsEndWithTheRightRows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t))
	if err := l.transaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkRows(t, l, map[string]int{"transaction": l.entities, "transaction-redis": l.entities})
}

func checkRows(t *testing.T, l *lab, want map[string]int) {
	t.Helper()
	checked := map[string]int64{}
	for _, r := range l.results {
		checked[r.Stage] = r.Checked
	}
	for stage, rows := range want {
		if got, ok := checked[stage]; !ok || got != int64(rows) {
			t.Errorf("%s: %d rows were checked, not %d", stage, got, rows)
		}
	}
}

func TestVerifyFindsWhatDiffersFromTheWorkload(t *testing.T) {
	w := &workload{entities: 10, body: 250, begin: 1}
	s := servertest.MySQL(t)
	for _, c := range []struct{ name, change, problem string }{
		{"nothing", "DO 0", ""},
		{"missing", "DELETE FROM index_users_email LIMIT 1", "of 10 rows are missing"},
		{"wrong", "UPDATE index_users_email SET email = 'other' LIMIT 1", `is "other", not `},
		{"too many", "INSERT INTO index_users_email VALUES ('more', REPEAT('x', 16))", "unexpected row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			database := servertest.Database(t, s)
			db, err := sql.Open("mysql", s.DSN(database))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, q := range []string{usersEmail.ddl(), "", c.change} {
				if q == "" { // the right rows
					for _, n := range w.newest(1000) {
						u := w.user(w.at(n))
						if _, err := db.Exec("INSERT INTO index_users_email VALUES (?, ?)", u.email, u.key[:]); err != nil {
							t.Fatal(err)
						}
					}
				} else if _, err := db.Exec(q); err != nil {
					t.Fatal(err)
				}
			}
			_, err = usersEmail.verify(t.Context(), db, database, w, 1000)
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("verify says %v, and should say %q", err, c.problem)
			}
		})
	}
}

func TestBodiesAreJSONOfTheSizeThatWasAskedFor(t *testing.T) {
	short := &workload{entities: 10, body: 100, begin: 1, emailOnly: true}
	if body := short.appendBody(nil, short.at(7)); len(body) != short.body || !json.Valid(body) ||
		!bytes.Contains(body, []byte(short.user(short.at(7)).email)) {
		t.Errorf("a body of 100 bytes is %s", body)
	}
	w := &workload{entities: 1000, body: 280, begin: time.Now().UnixNano()}
	for n := range 1000 {
		c := w.at(n)
		body := w.appendBody(nil, c)
		if len(body) != w.body {
			t.Fatalf("cell %d: %d bytes: %s", n, len(body), body)
		}
		var b struct {
			Username, Email, Password string
			Phone                     int
			Activate                  bool
		}
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if u := w.user(c); b.Username != u.username || b.Email != u.email || b.Password != u.password || b.Phone != u.phone ||
			b.Activate != u.activate {
			t.Fatalf("cell %d says %+v, its body %s", n, u, body)
		}
	}
}

func TestWorkloadHoldsWhatMakesViewsHard(t *testing.T) {
	w := &workload{entities: 1000, body: 250, begin: 1 << 60}
	keys := map[[16]byte]bool{}
	zeroes := 0
	for e := range w.entities {
		key := w.key(e)
		keys[key] = true
		if bytes.HasSuffix(key[:], []byte{0, 0, 0, 0}) {
			zeroes++
		}
	}
	if len(keys) != w.entities || zeroes == 0 {
		t.Errorf("%d keys of %d entities, %d end in zero bytes", len(keys), w.entities, zeroes)
	}
	refs := map[int64]bool{}
	emails := map[string]bool{}
	const n = 50_000
	lateCells := 0
	newest := map[int]int64{}
	for i := range n {
		c := w.at(i)
		refs[c.ref], emails[w.user(c).email] = true, true
		if c.ref < newest[c.entity] {
			lateCells++
		}
		newest[c.entity] = max(newest[c.entity], c.ref)
	}
	if len(refs) != n || len(emails) != n || lateCells < n/200 {
		t.Errorf("of %d cells: %d versions, %d emails, %d late", n, len(refs), len(emails), lateCells)
	}
	for e, number := range w.newest(n) {
		if c := w.at(number); c.entity != e || c.ref != newest[e] {
			t.Fatalf("the newest cell of entity %d is said to be %+v; its highest version is %d", e, c, newest[e])
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args  string
		cells int
		wrong string
	}{
		{"", 1_000_000, ""},
		{"-quick", 5000, ""},
		{"-quick -cells 70", 70, ""},
		{"-servers mysql,mariadb-11.8", 1_000_000, ""},
		{"-servers oracle", 0, "unknown kind of server"},
		{"-servers redis-7", 0, "no binlog"},
		{"-cells 0", 0, "-cells must be at least 1"},
		{"-only fill,latency", 1_000_000, ""},
		{"-only fill,fun", 0, `unknown stage "fun"`},
		{"-only growth -curve up", 0, `unknown curve "up"`},
		{"now", 0, `unexpected argument "now"`},
	} {
		o, err := parse(strings.Fields(c.args), io.Discard)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v; it should say %q", c.args, err, c.wrong)
			}
		} else if err != nil || o.cells != c.cells {
			t.Errorf("%q: %d cells, %v", c.args, o.cells, err)
		}
	}
}

func TestReportShowsEveryFigureInItsColumn(t *testing.T) {
	r := report{Cells: 1_000_000, Entities: 100_000, Servers: []measure{{Kind: "mysql",
		Version: "9.7.4", Results: []result{
			{Stage: "raw-hset", What: "write", PerSecond: 1_234_567, ClientCPU: 0.84},
			{Stage: "new-redis", What: "all", PerSecond: 45_678, ClientCPU: 5, SinkCPU: 123, PeakBytes: 64 << 20,
				OfRaw: 0.5, Raw: "raw-hset"},
			{Stage: "latency", What: "lag", Latency: &latency{Rate: 1000,
				quantiles: quantiles{Samples: 20_000, P50: 1.5, P90: 2, P99: 3, Max: 4},
				Over:      []second{{At: 7, quantiles: quantiles{Samples: 1000, P50: 1.4, P90: 2.5, P99: 738, Max: 914}}}}},
		}}}}
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{
		"mysql 9.7.4: 1,000,000 cells of 100,000 entities",
		"raw-hset        1,234,567     0.8     0.0   0.0      0.8                    write",
		"new-redis          45,678     5.0     0.0   123      128        64    0.50  all",
		"latency: commit → visible, 1000 transactions a second, 20,000 samples: p50 1.50 ms, p90 2.00, p99 3.00, max 4.0",
		"     7    1,000  1.4  2.5  738  914",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := writeJSON(path, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Servers) != 1 ||
		back.Servers[0].Results[2].Latency.P99 != 3 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestCPUTimeOfAProcessGrowsAsItWorks(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	begin, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Minute)
	for now := begin; now < begin+5*tick; {
		if time.Now().After(deadline) {
			t.Fatalf("CPU time stays at %v", now)
		}
		if now, err = processCPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if peak := peakMemory(os.Getpid()); peak < 1<<20 {
		t.Errorf("this process never had more than %d bytes, it says", peak)
	}
	if _, err := processCPU(-1); err == nil {
		t.Error("a process that is not there has a CPU time")
	}
}

// linked returns the path of the program that all these tests run. It is built once.
func linked(t *testing.T) string { return builds.Binary(t) }

// built returns a compiler that links to the program that is already built.
func built(t *testing.T) compiler {
	return func(_ context.Context, path string) error { return os.Symlink(linked(t), path) }
}
