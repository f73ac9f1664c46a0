package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/servers/servertest"
	"replicator/kafka"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var table = replicator.Table{Name: "cell", Key: []string{"id"}, Column: "kind", Body: "body", Codec: "json",
	Values: []string{"users"}}

func cell(id int64) replicator.Cell {
	key, _ := replicator.MakeKey(id)
	return replicator.Cell{Table: "cell", Key: key, Column: "users"}
}

// publisher writes changelogs as one.
type publisher struct {
	t       *testing.T
	cluster *kafka.Cluster
	admin   *kadm.Client
	client  *kgo.Client
	topic   string
}

// publish makes a topic of some partitions.
func publish(t *testing.T, partitions int32, settings map[string]string) *publisher {
	t.Helper()
	addr := servertest.Kafka(t)
	p := &publisher{t: t, topic: servertest.Name()}
	var err error
	if p.cluster, err = kafka.Connect(kgo.SeedBrokers(addr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cluster.Close)
	p.client, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID(p.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(p.topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	p.admin = kadm.NewClient(p.client)
	configs := map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}
	for key, value := range settings {
		configs[key] = &value
	}
	made, err := p.admin.CreateTopic(t.Context(), partitions, 1, configs, p.topic)
	if err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	return p
}

// write writes records to a partition in one transaction.
func (p *publisher) write(partition int32, records ...*kgo.Record) {
	p.t.Helper()
	err := p.client.BeginTransaction()
	for _, r := range records {
		r.Partition = partition
	}
	if err == nil {
		err = p.client.ProduceSync(p.t.Context(), records...).FirstErr()
	}
	if err == nil {
		err = p.client.EndTransaction(p.t.Context(), kgo.TryCommit)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func put(id, version, order, asOf int64, body string) *kgo.Record {
	r := &changelog.Record{Cell: cell(id), State: replicator.State{Version: version, Order: order, AsOf: asOf}, Codec: "json"}
	r.Row = &replicator.Row{Cell: r.Cell, Version: version, Order: order, Time: time.Unix(order, 0), Body: []byte(body)}
	return changelog.Encode(r)
}

func gone(id, asOf int64) *kgo.Record {
	return changelog.Encode(&changelog.Record{Cell: cell(id),
		State: replicator.State{Version: replicator.NoVersion, Order: asOf, AsOf: asOf}})
}

func mark(order int64) *kgo.Record {
	at := replicator.Position{Order: order, Token: fmt.Sprintf("origin %d", order)}
	return changelog.EncodeMark(&changelog.Mark{View: "log", Standing: replicator.Standing{Position: at}, Time: time.Now()})
}

// covers takes "N" for what is included at the origin's order N.
func covers(token, fence string) (bool, error) {
	var at, wanted int64
	_, err := fmt.Sscanf(token+" "+fence, "origin %d %d", &at, &wanted)
	return at >= wanted, err
}

func (p *publisher) source(partition int32) *kafka.Source {
	return p.cluster.Source(kafka.Config{Topic: p.topic, Partition: partition, Tables: []replicator.Table{table},
		Covers: covers})
}

// heard is a Handler that notes what it is told, as one line each.
type heard struct {
	mu   sync.Mutex
	told []string
	at   int64
	more chan struct{}
}

func (h *heard) Change(_ context.Context, c *replicator.Change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := fmt.Sprintf("%s v%d", c.Cell, c.Version)
	switch {
	case c.AsOf != 0:
		text += fmt.Sprintf(" found at %d", c.AsOf)
	default:
		text += fmt.Sprintf(" put at %d", c.Order)
	}
	switch {
	case c.Row == nil:
		text += ": nothing"
	case c.Row.Err != nil:
		text += ": dead"
	default:
		text += ": " + string(c.Row.Body)
	}
	h.told = append(h.told, text)
	return nil
}

func (h *heard) Commit(order int64, _ time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = order
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *heard) Unlogged(_ string, _ int64, err error) error { return err }

// read reads from a position to the partition's present end.
func (p *publisher) read(s *kafka.Source, from replicator.Position) (replicator.Reader, []string) {
	p.t.Helper()
	r, err := s.Open(p.t.Context(), []replicator.Position{from})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = r.Close() })
	end, err := r.Latest(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	h := &heard{more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Read(ctx, h) }()
	for {
		h.mu.Lock()
		at := h.at
		h.mu.Unlock()
		if at >= end.Order {
			break
		}
		select {
		case <-h.more:
		case err := <-done:
			p.t.Fatal(err)
		case <-time.After(30 * time.Second):
			p.t.Fatalf("read up to %d of %d", at, end.Order)
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		p.t.Error(err)
	}
	return r, h.told
}

func (p *publisher) oldest(s *kafka.Source) replicator.Position {
	p.t.Helper()
	at, err := s.Oldest(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAReaderTellsWhatRecordsSayAndHowFarThePublisherWas(t *testing.T) {
	p := publish(t, 2, nil)
	p.write(1, put(1, 1, 10, 0, `{"a":1}`), put(2, 5, 11, 0, `{"a":2}`), mark(20))
	p.write(1, gone(1, 30), put(2, 4, 35, 31, `{"a":3}`), mark(40))
	p.write(0, put(3, 1, 1, 0, `{}`))
	s := p.source(1)
	if s.Name() != p.topic+"/1" {
		t.Errorf("it is called %s", s.Name())
	}
	r, told := p.read(s, p.oldest(s))
	equal(t, told, `cell.users 1 v1 put at 10: {"a":1}`, `cell.users 2 v5 put at 11: {"a":2}`,
		`cell.users 1 v-1 found at 30: nothing`,
		`cell.users 2 v4 found at 31: {"a":3}`, `cell.users 2 v4 put at 35: {"a":3}`)
	for _, c := range []struct {
		offset int64
		fence  string
		want   bool
	}{
		{2, "20", false}, {4, "20", true}, {4, "21", false}, {8, "40", true},
		{8, p.topic + "/1:8", true}, {8, p.topic + "/1:9", false}, {8, kafka.Fence("b", "1"), false},
	} {
		if got, err := r.Includes(t.Context(), r.Position(c.offset), c.fence); got != c.want || err != nil {
			t.Errorf("at offset %d it includes %s: %t, %v", c.offset, c.fence, got, err)
		}
	}
	at := r.Position(4)
	_, told = p.read(s, at)
	equal(t, told, `cell.users 1 v-1 found at 30: nothing`,
		`cell.users 2 v4 found at 31: {"a":3}`, `cell.users 2 v4 put at 35: {"a":3}`)
}
