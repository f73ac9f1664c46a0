package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/config"
	"replicator/internal/changelog"
	"replicator/internal/servers/servertest"
	"replicator/server"
	"replicator/sinks"
	"replicator/view"
)

// topicLab is a topic that a publisher writes, and a Redis in which members of a group keep a view of the topic.
type topicLab struct {
	t      *testing.T
	broker string
	topic  string
	client *kgo.Client
	redis  *goredis.Client
	order  int64 // the origin's current log position
	users  map[int64]string

	partitions int32                 // how many partitions get marks
	fields     string                // the view's fields
	row        func(*replicator.Row) // changes each row before it is published; nil: rows stay as they are
}

const topicPartitions = 4

func newTopicLab(t *testing.T) *topicLab { t.Helper(); return newTopicLabAt(t, servertest.Kafka(t)) }

func newTopicLabAt(t *testing.T, broker string) *topicLab {
	t.Helper()
	l := &topicLab{t: t, broker: broker, topic: servertest.Name(), users: map[int64]string{}, order: 100,
		partitions: topicPartitions, fields: `["name"]`}
	l.connect()
	l.makeTopic(l.topic)
	l.redis = goredis.NewClient(&goredis.Options{Addr: servertest.Redis(t).Addr()})
	t.Cleanup(func() { _ = l.redis.Close() })
	return l
}

// makeTopic creates a topic and the topic of its marks.
func (l *topicLab) makeTopic(name string) {
	l.t.Helper()
	for name, partitions := range map[string]int32{name: topicPartitions, name + changelog.MarksSuffix: 1} {
		made, err := kadm.NewClient(l.client).CreateTopic(l.t.Context(), partitions, 1,
			map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, name)
		if err != nil || made.Err != nil {
			l.t.Fatal(err, made.Err)
		}
	}
}

// connect creates the publisher's client. It fences off the previous client.
func (l *topicLab) connect() {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.broker), kgo.TransactionalID(l.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(l.topic))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(client.Close)
	l.client = client
}

// publish writes the users' names and a mark. An empty name deletes the user. publish returns a fence that includes
// these writes.
func (l *topicLab) publish(names map[int64]string) (fence string) {
	l.t.Helper()
	var records []*kgo.Record
	for id, name := range names {
		l.order++
		l.users[id] = name
		key, err := replicator.MakeKey(id)
		if err != nil {
			l.t.Fatal(err)
		}
		r := &changelog.Record{Cell: replicator.Cell{Table: "cell", Key: key, Column: "users"}, Codec: "json"}
		r.State = replicator.State{Version: l.order, Order: l.order}
		if name == "" {
			r.State, r.Codec = replicator.State{Version: replicator.NoVersion, Order: l.order, AsOf: l.order}, ""
		} else {
			r.Row = &replicator.Row{Cell: r.Cell, Version: l.order, Order: l.order, Time: time.Now(),
				Body: fmt.Appendf(nil, `{"name": %q}`, name)}
			if l.row != nil {
				l.row(r.Row)
			}
		}
		record := changelog.Encode(r)
		record.Partition = int32(changelog.Partition(r.Cell, topicPartitions))
		records = append(records, record)
	}
	at := replicator.Position{Order: l.order, Token: fmt.Sprintf(`{"file":"binlog.000001","pos":%d}`, l.order)}
	records = append(records, l.marks(at)...)
	l.write(records)
	return fmt.Sprintf("binlog.000001:%d", l.order)
}

// marks returns the marks of an origin's position, for all partitions and for the topic of marks.
func (l *topicLab) marks(at replicator.Position) (records []*kgo.Record) {
	for n := range l.partitions + 1 {
		mark := changelog.EncodeMark(&changelog.Mark{View: "log", Partitions: topicPartitions,
			Standing: replicator.Standing{Position: at}, Time: time.Now()})
		if mark.Partition = n; n == l.partitions {
			mark.Topic, mark.Partition = l.topic+changelog.MarksSuffix, 0
		}
		records = append(records, mark)
	}
	return records
}

// write writes records in one transaction.
func (l *topicLab) write(records []*kgo.Record) {
	l.t.Helper()
	err := l.client.BeginTransaction()
	if err == nil {
		err = l.client.ProduceSync(l.t.Context(), records...).FirstErr()
	}
	if err == nil {
		err = l.client.EndTransaction(l.t.Context(), kgo.TryCommit)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// equal fails the test unless the view matches the users.
func (l *topicLab) equal(when string) {
	l.t.Helper()
	keys, err := l.redis.Keys(l.t.Context(), l.topic+":*").Result()
	if err != nil {
		l.t.Fatal(err)
	}
	shown := map[string]string{}
	for _, key := range keys {
		shown[key] = l.redis.HGet(l.t.Context(), key, "name").Val()
	}
	for id, name := range l.users {
		key := fmt.Sprintf("%s:%d", l.topic, id)
		if shown[key] != name {
			l.t.Errorf("%s: user %d is %q, want %q", when, id, shown[key], name)
		}
		delete(shown, key)
	}
	if len(shown) > 0 {
		l.t.Errorf("%s: the view has %v beside", when, shown)
	}
}

// member is a process that keeps the view.
type member struct {
	*Service
	crash, stop context.CancelFunc
	done        chan error
	end         func() // stops the process and closes its store
}

func (l *topicLab) member() *member { return l.memberBy(l.setup(nil)) }

func (l *topicLab) memberBy(setup Setup) *member {
	l.t.Helper()
	var log logged
	setup.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := New(l.t.Context(), setup, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, crash := context.WithCancel(context.Background())
	stop, stopNow := context.WithCancel(context.Background())
	m := &member{Service: s, crash: crash, stop: stopNow, done: make(chan error, 1)}
	go func() { m.done <- s.Run(ctx, stop) }()
	m.end = sync.OnceFunc(func() {
		m.stop()
		if err := <-m.done; err != nil {
			l.t.Error(err)
		}
		m.crash()
		if err := s.Close(); err != nil {
			l.t.Error(err)
		}
	})
	l.t.Cleanup(func() {
		m.end()
		if l.t.Failed() {
			l.t.Logf("log of a member:\n%s", log.String())
		}
	})
	return m
}

// setup returns a member's setup with its own state directory.
func (l *topicLab) setup(log *slog.Logger) Setup {
	l.t.Helper()
	dir := l.t.TempDir()
	file := filepath.Join(dir, "replicator.toml")
	text := fmt.Sprintf(`
[source]
type = "kafka"
brokers = [%q]
topics = [%q]
group = %[2]q
session = "6s"
[checkpoint]
interval = "100ms"
[tables.cell]
key = "id"
column = "kind"
body = "body"
[sinks.cache]
type = "redis"
url = "redis://%[3]s/0"
[views.users]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "%[2]s:{id}"
fields = %[4]s
`, l.broker, l.topic, servertest.Redis(l.t).Addr(), l.fields)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	cfg, err := config.Load(file, os.LookupEnv, sinks.Types())
	if err != nil {
		l.t.Fatal(err)
	}
	return Setup{Config: cfg, Log: log, OpenSink: openForTest}
}

func openForTest(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	views := ViewsOf(cfg, sink.Name)
	return sink.Open(config.Opening{Views: views, Tables: cfg.Tables, Log: log,
		Names: func() (config.Names, error) { return view.NewNames(views, cfg.Tables) }})
}

// waits waits until a member includes a fence.
func (l *topicLab) waits(m *member, fence string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Minute)
	defer cancel()
	if err := m.Wait(ctx, server.Fence{At: fence}, nil); err != nil {
		all, _ := m.Status(l.t.Context())
		l.t.Fatalf("%v\nthe views are %+v", err, all)
	}
}

// has returns how many partitions this member, other members and no members have, according to the member's status. An
// own partition counts once the brokers have reported its member and how far it is behind.
func has(t *testing.T, m *member) (own, others, nobodys int) {
	t.Helper()
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		switch v.State {
		case replicator.StateMember:
			others++
		case replicator.StateUnassigned:
			nobodys++
		case replicator.StateRunning:
			if v.Member != "" && v.Behind != nil {
				own++
			}
			if !strings.Contains(v.Position, v.Source+":") {
				t.Errorf("a row of an own partition: %+v", v)
			}
		}
	}
	return own, others, nobodys
}

func TestMembersOfAGroupShareATopicAndAFenceHoldsAtEachOfThem(t *testing.T) {
	l := newTopicLab(t)
	fence := l.publish(many("first "))
	a := l.member()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := a.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	l.waits(a, fence)
	l.equal("one member from offset zero")

	b := l.member()
	eventually(t, "both have partitions", func() bool {
		own, others, nobodys := has(t, b)
		return own == 2 && others == 2 && nobodys == 0
	})
	names := many("second ")
	names[3], names[4] = "", ""
	delete(l.users, 3)
	fence = l.publish(names)
	l.waits(a, fence)
	delete(l.users, 3)
	delete(l.users, 4)
	l.equal("two members")

	if err := l.redis.Del(t.Context(), l.topic+":7").Err(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{a, b} {
		if err := m.Rebuild(ctx, "users", server.Rebuild{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both have rebuilt the view", func() bool {
		of, _, _ := has(t, a)
		others, _, _ := has(t, b)
		return of == 2 && others == 2
	})
	l.equal("after a rebuild")

	a.crash()
	fence = l.publish(many("third "))
	l.waits(b, fence)
	l.equal("one member crashed")
}

// The topics' origin has no dsn, so check samples no rows.
func TestCheckOfATopicThatIsWellFindsNothing(t *testing.T) {
	l := newTopicLab(t)
	l.publish(map[int64]string{1: "ada"})
	findings, err := Check(t.Context(), l.setup(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Level == replicator.Fail {
			t.Errorf("%s: %s", f.What, f.Detail)
		}
	}
	if len(findings) == 0 {
		t.Error("nothing was looked at")
	}
}
