package matrix

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/lab"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

//go:embed untold.toml
var untoldConfig string

// things is the environment of a test with one table, and a view of the table in each kind of sink.
type things struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	source  lab.MySQL
	redis   lab.Redis
	elastic lab.Elastic
	broker  string
	name    string // the name of the index and of the topic
	program *lab.Program
	running *lab.Running
	last    atomic.Int64    // the last n that was written
	begun   [2]atomic.Int64 // how many statements each writer has begun
}

// thingsColumns are the columns that views show besides the key.
var thingsColumns = []string{"n", "twice", "minus", "doc", "body", "kind", "tags", "label", "amount"}

func newThings(t *testing.T, kind servers.Kind, seed uint64) *things {
	t.Helper()
	w := &things{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), name: servertest.Name(),
		redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)}, broker: servertest.Kafka(t),
		elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}}
	var dsn string
	w.source, dsn = lab.Prepare(t, servertest.Own(t, kind), "untold", thingsTable)
	for id := range 60 {
		w.source.Exec(t, thingsStatement(w.r, id, w.last.Add(1)))
	}
	w.program = lab.Build(t, "UNTOLD", strings.ReplaceAll(untoldConfig, "NAME", w.name), "UNTOLD_DSN="+dsn,
		"UNTOLD_REDIS="+w.redis.Server.DSN("0"), "UNTOLD_ELASTIC="+w.elastic.URL, "UNTOLD_KAFKA="+w.broker)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.program.Log(60))
		}
	})
	return w
}

// write writes until the returned function is called. n grows with each write, and each row has one writer.
func (w *things) write() (stop func()) {
	w.t.Helper()
	db, err := sql.Open("mysql", w.source.Server.DSN(w.source.Database))
	if err != nil {
		w.t.Fatal(err)
	}
	db.SetConnMaxLifetime(200 * time.Millisecond) // new sessions soon use changed global settings
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for i := range w.begun {
		r := rand.New(rand.NewPCG(w.seed, uint64(w.last.Add(1))))
		wg.Go(func() {
			for ctx.Err() == nil {
				w.begun[i].Add(1)
				_, _ = db.ExecContext(ctx, thingsStatement(r, i+2*r.IntN(50), w.last.Add(1))) // an ALTER may stop it
				_ = pause.For(ctx, 20*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// next waits until every writer writes an n above the current w.last.
func (w *things) next() {
	w.t.Helper()
	for i := range w.begun {
		before := w.begun[i].Load()
		lab.Await(w.t, "a writer goes on", func() bool { return w.begun[i].Load() > before+1 })
	}
}

// row is a row of the table, or what a view shows of a row, by column name.
type row map[string]string

// sinks returns functions that read the content of the views, by the row's id. It leaves out the topic.
func (w *things) sinks() map[string]func(context.Context) (map[string]row, error) {
	return map[string]func(context.Context) (map[string]row, error){
		"thing_rows": func(ctx context.Context) (map[string]row, error) { return w.rows(ctx, "thing_rows") },
		"thing_hash": func(ctx context.Context) (map[string]row, error) {
			held, err := w.redis.Hashes(ctx, "thing:*")
			rows := map[string]row{}
			for place, value := range held {
				key, field, _ := strings.Cut(place, " ")
				id := strings.TrimPrefix(key, "thing:")
				if rows[id] == nil {
					rows[id] = row{}
				}
				rows[id][field] = spelt(value)
			}
			return rows, err
		},
		"thing_documents": func(ctx context.Context) (map[string]row, error) {
			held, err := w.elastic.Documents(ctx, w.name)
			rows := map[string]row{}
			for id, fields := range held {
				rows[id] = row{}
				for name, value := range fields {
					rows[id][name] = spelt(value)
				}
			}
			return rows, err
		},
	}
}

func (w *things) rows(ctx context.Context, table string) (map[string]row, error) {
	lines, err := w.source.Rows(ctx, "SELECT id, "+strings.Join(thingsColumns, ", ")+" FROM "+table)
	rows := map[string]row{}
	for _, l := range lines {
		rows[l[0]] = row{}
		for i, name := range thingsColumns {
			rows[l[0]][name] = spelt(l[i+1])
		}
	}
	return rows, err
}

// spelt formats a value in the same way for every source of it. For example, JSON is an object in one sink and a text
// in another.
func spelt(value any) string {
	if text, ok := value.(string); ok && strings.HasPrefix(text, "{") {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			return text
		}
	}
	switch v := value.(type) {
	case replicator.RawJSON:
		return spelt(string(v))
	case []byte:
		return string(v)
	case map[string]any:
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			return err.Error()
		}
		return strings.TrimSpace(b.String())
	default:
		return fmt.Sprint(v)
	}
}

// watch reads the views until the returned function is called. It checks that each row is complete and never goes back.
func (w *things) watch() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for view, read := range w.sinks() {
		wg.Go(func() {
			seen := highest{}
			for ctx.Err() == nil {
				rows, err := read(ctx)
				for id, r := range rows {
					if err == nil {
						err = seen.see(id, r)
					}
				}
				if err != nil && ctx.Err() == nil {
					w.t.Errorf("%s %s: %v", time.Now().Format("15:04:05.000"), view, err)
					return
				}
				_ = pause.For(ctx, 300*time.Millisecond) // each read starts a client process
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// highest is the highest n of each row that a reader has seen.
type highest map[string]int64

func (seen highest) see(id string, r row) error {
	var n, twice, minus int64
	if _, err := fmt.Sscan(r["n"]+" "+r["twice"]+" "+r["minus"], &n, &twice, &minus); err != nil ||
		twice != 2*n || minus != -n {
		return fmt.Errorf("row %s is %v: it is no row of the table", id, r)
	}
	if n < seen[id] {
		return fmt.Errorf("row %s stepped back from %d to %d", id, seen[id], n)
	}
	seen[id] = n
	return nil
}

// compare compares every view with the rows of the source.
func (w *things) compare() {
	w.t.Helper()
	want, err := w.rows(w.t.Context(), "things")
	if err != nil {
		w.t.Fatal(err)
	}
	views := w.sinks()
	views["thing_log"] = func(context.Context) (map[string]row, error) { return w.readLog(), nil }
	for view, read := range views {
		got, err := read(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range lab.Differences(view, held(want), held(got)) {
			w.t.Error(d)
		}
	}
	if len(want) == 0 {
		w.t.Error("the table is empty")
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

func held(rows map[string]row) lab.Held {
	h := lab.Held{}
	for id, r := range rows {
		h[id] = canonical(r)
	}
	return h
}

// readLog reads the topic from its beginning, as a consumer would, and returns the last value of each row.
func (w *things) readLog() map[string]row {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(w.t.Context(), w.name)
	if err != nil || listed.Error() != nil {
		w.t.Fatal(err, listed.Error())
	}
	ends := map[int32]int64{}
	for p, o := range listed[w.name] {
		ends[p] = o.Offset
	}
	rows, seen := map[string]row{}, highest{}
	err = changelog.Read(w.t.Context(), []kgo.Opt{kgo.SeedBrokers(w.broker)}, w.name, nil, ends, func(records []*kgo.Record) error {
		for _, raw := range records {
			if changelog.IsMark(raw) {
				continue
			}
			record, err := changelog.Decode(raw)
			if err != nil {
				return err
			}
			key, err := record.Cell.Key.Values()
			if err != nil {
				return err
			}
			id := fmt.Sprint(key[0])
			if record.Row == nil {
				delete(rows, id)
				continue
			}
			rows[id] = row{}
			for i, name := range record.Row.Names {
				if name != "id" {
					rows[id][name] = spelt(record.Row.Columns[i])
				}
			}
			if err := seen.see(id, rows[id]); err != nil {
				w.t.Errorf("thing_log: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}
