package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/kafkaclient"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// largest is the max.message.bytes of the tests' topics.
const largest = 10_000

// cluster has clients with which tests change the shared broker directly.
type cluster struct {
	t      testing.TB
	client *kgo.Client
	admin  *kadm.Client
	access kafkaclient.Access
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, access: kafkaclient.Access{Brokers: []string{servertest.Kafka(t)}}}
	var err error
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.access.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	c.admin = kadm.NewClient(c.client)
	return c
}

// topic creates a view's topic and its marks topic.
func (c *cluster) topic(name string, partitions int32) {
	c.t.Helper()
	text := func(s string) *string { return &s }
	for name, n := range map[string]int32{name: partitions, name + changelog.MarksSuffix: 1} {
		made, err := c.admin.CreateTopic(c.t.Context(), n, 1, map[string]*string{"cleanup.policy": text("compact"),
			"max.message.bytes": text("10000")}, name)
		if err != nil || made.Err != nil {
			c.t.Fatal(err, made.Err)
		}
	}
	if made, err := c.sink(c.t).await(c.t.Context(), name); err != nil || made.marks == nil {
		c.t.Fatal(made, err)
	}
}

func (c *cluster) produce(r *kgo.Record) {
	c.t.Helper()
	if err := c.client.ProduceSync(c.t.Context(), r).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) sink(t testing.TB, views ...*replicator.View) *Sink {
	t.Helper()
	s, err := New(Config{Name: "log", Access: c.access, Views: views, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// reader reads the last value of every key of a topic, as any consumer would.
type reader struct {
	client *kgo.Client
	ends   func() map[int32]int64
	at     map[int32]int64
	last   map[string][]byte
}

func (c *cluster) reader(topic string) *reader {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.access.Brokers...), kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return &reader{client: client, at: map[int32]int64{}, last: map[string][]byte{}, ends: func() map[int32]int64 {
		listed, err := c.admin.ListEndOffsets(context.Background(), topic)
		for end := time.Now().Add(10 * time.Minute); err != nil || listed.Error() != nil; { // a leader may be down
			if time.Now().After(end) {
				c.t.Fatal(err, listed.Error())
			}
			listed, err = c.admin.ListEndOffsets(context.Background(), topic)
		}
		ends := map[int32]int64{}
		for p, o := range listed[topic] {
			ends[p] = o.Offset
		}
		return ends
	}}
}

// read reads up to the topic's end.
func (r *reader) read(t testing.TB) map[string][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	ends := r.ends()
	maps.DeleteFunc(ends, func(p int32, end int64) bool { return r.at[p] >= end })
	for len(ends) > 0 {
		fetches := r.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("reading up to %v: %v", ends, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if r.at[rec.Partition] = rec.Offset + 1; rec.Offset+1 >= ends[rec.Partition] {
				delete(ends, rec.Partition)
			}
			switch {
			case rec.Attrs.IsControl():
			case rec.Value == nil:
				delete(r.last, string(rec.Key))
			default:
				r.last[string(rec.Key)] = rec.Value
			}
		})
	}
	return r.last
}

// persistent is a sink whose targets open their views again after another publisher took the views over, as a session
// does. The targets of a test share turn, so that only one of them does this at a time. Otherwise they could fence each
// other endlessly. Sessions avoid that by waiting.
type persistent struct {
	*Sink
	turn *sync.Mutex
}

func (s persistent) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	if err != nil {
		return nil, err
	}
	return &reopening{sink: s.Sink, turn: s.turn, source: source, views: views, target: target}, nil
}

type reopening struct {
	sink   *Sink
	turn   *sync.Mutex
	source string
	views  []*replicator.View
	mu     sync.Mutex
	target replicator.Target
}

func again[T any](ctx context.Context, r *reopening, call func(replicator.Target) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, err := call(r.target)
	taken := func() bool { // brokers return any of these errors
		return isFenced(err) || errors.Is(err, kerr.UnknownServerError) || errors.Is(err, kerr.OutOfOrderSequenceNumber)
	}
	if !taken() {
		return out, err
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	for taken() {
		var target replicator.Target
		if target, err = r.sink.Open(ctx, r.source, r.views); err == nil {
			r.target = target
			out, err = call(target)
		}
	}
	return out, err
}

func (r *reopening) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	return again(ctx, r, func(t replicator.Target) (replicator.Applied, error) { return t.Apply(ctx, ops) })
}

func (r *reopening) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	return again(ctx, r, func(t replicator.Target) ([]replicator.Span, error) { return t.Versions(ctx, cells) })
}

func (r *reopening) Mark(ctx context.Context, at replicator.Standing) error {
	_, err := again(ctx, r, func(t replicator.Target) (int, error) { return 0, t.Mark(ctx, at) })
	return err
}

func (r *reopening) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	return again(ctx, r, func(t replicator.Target) ([]replicator.Difference, error) { return t.Compare(ctx, ops) })
}

type page struct {
	cells []replicator.Cell
	next  string
}

func (r *reopening) page(
	ctx context.Context, call func(replicator.Target) ([]replicator.Cell, string, error),
) ([]replicator.Cell, string, error) {
	p, err := again(ctx, r, func(t replicator.Target) (p page, err error) {
		p.cells, p.next, err = call(t)
		return p, err
	})
	return p.cells, p.next, err
}

func (r *reopening) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return r.page(ctx, func(t replicator.Target) ([]replicator.Cell, string, error) {
		return t.Outdated(ctx, before, after, limit)
	})
}

func (r *reopening) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return r.page(ctx, func(t replicator.Target) ([]replicator.Cell, string, error) {
		return t.Dead(ctx, view, after, limit)
	})
}

func (r *reopening) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return r.page(ctx, func(t replicator.Target) ([]replicator.Cell, string, error) {
		return t.Held(ctx, view, after, limit)
	})
}

func changelogOf(name string, feed replicator.Feed, fields ...string) *replicator.View {
	v := &replicator.View{Name: name, Kind: kind, From: []replicator.Feed{feed}, Fingerprint: "1",
		Settings: Settings{Topic: servertest.Name()}}
	for _, f := range fields {
		v.Fields = append(v.Fields, replicator.Field{Name: f, Path: f})
	}
	return v
}

// TestConformance runs the conformance suite. Each publisher that opens a view takes it over from the previous one.
func TestConformance(t *testing.T) {
	c := newCluster(t)
	views := map[string]*replicator.View{
		"users":     changelogOf("users", replicator.Feed{Table: "cell", Column: "users"}, "email", "city"),
		"favorites": changelogOf("favorites", replicator.Feed{Table: "fav"}, "email"),
	}
	sources := []string{"", "one", "other", "marks", "forget", "lost", "overtaken", "registered", "foreign", "damaged", "west",
		"east"} // the sources that the suite uses
	readers := map[string][]*reader{}
	for _, v := range views {
		v.Settings = Settings{Topic: settingsOf(v).Topic + sourceName}
		for _, source := range sources {
			c.topic(topicOf(v, source), 2)
			readers[v.Name] = append(readers[v.Name], c.reader(topicOf(v, source)))
		}
	}
	marksOf := func(source, view string) string { return topicOf(views[view], source) + changelog.MarksSuffix }
	setMark := func(source, view string, value []byte) {
		c.produce(&kgo.Record{Topic: marksOf(source, view), Key: changelog.MarkKey(view, source), Value: value})
	}
	var turn sync.Mutex
	sinktest.Run(t, sinktest.Subject{
		Tables: []replicator.Table{
			{Name: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key"},
			{Name: "fav", Key: []string{"object_id", "user_id"}},
		},
		Views: []*replicator.View{views["users"], views["favorites"]}, Histories: 5,
		New: func(t testing.TB) replicator.Sink {
			s := c.sink(t, views["users"], views["favorites"])
			s.cfg.Sources = sources
			return persistent{s, &turn}
		},
		Read: func(t testing.TB, v *replicator.View) map[string]string {
			out, all := map[string]string{}, map[string][]byte{}
			for _, r := range readers[v.Name] {
				maps.Copy(all, r.read(t))
			}
			for key, value := range all {
				var row struct {
					Columns map[string]any
					Dead    string
				}
				if strings.HasPrefix(key, `{"mark"`) {
					continue
				}
				cell, err := changelog.CellOf([]byte(key))
				if err == nil {
					err = json.Unmarshal(value, &row)
				}
				if err != nil {
					t.Fatal(err)
				}
				if row.Dead != "" {
					continue
				}
				fields := make([]any, len(v.Fields))
				for i, f := range v.Fields {
					fields[i] = row.Columns[f.Name]
				}
				out[cell.Key.String()] = sinktest.RowText(v, fields)
			}
			return out
		},
		Entry: func(v *replicator.View, _ replicator.Cell, fields []any) (replicator.Entry, bool) {
			row := &replicator.Row{Columns: fields}
			for _, f := range v.Fields {
				row.Names = append(row.Names, f.Name)
			}
			return replicator.Entry{Row: row, Fields: fields}, true
		},
		Bad: map[string]any{"email": strings.Repeat("x", 2*largest)},
		SetMark: func(t testing.TB, source, view string, at *replicator.Standing) {
			if at == nil {
				setMark(source, view, nil)
				return
			}
			var m map[string]json.RawMessage
			d := json.NewDecoder(bytes.NewReader(c.reader(marksOf(source, view)).read(t)[string(changelog.MarkKey(view, source))]))
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			standing, err := json.Marshal(at.Stored())
			if err != nil {
				t.Fatal(err)
			}
			m["standing"] = standing
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			setMark(source, view, text)
		},
		DamageMark: func(_ testing.TB, source, view string) { setMark(source, view, []byte("7")) },
	})
}
