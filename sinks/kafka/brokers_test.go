package kafka

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/kafkaclient"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// threeBrokers is a cluster of three brokers and a publisher. After an error, the publisher opens its view again, as a
// session does.
type threeBrokers struct {
	*cluster
	view         *replicator.View
	first        *servers.Server // the controller
	others       []*servers.Server
	sink         *Sink
	target       replicator.Target
	step         int64
	acknowledged map[string]int64
}

func newThreeBrokers(t *testing.T) *threeBrokers {
	t.Helper()
	copies := []string{"--override", "transaction.state.log.replication.factor=3",
		"--override", "transaction.state.log.min.isr=2"}
	b := &threeBrokers{first: servertest.Own(t, servers.Kafka, copies...), acknowledged: map[string]int64{}}
	c := &cluster{t: t, access: kafkaclient.Access{Brokers: []string{b.first.Addr()}}}
	for id := 2; id <= 3; id++ {
		other := servertest.Own(t, servers.Kafka, append(servers.KafkaMember(b.first, id), copies...)...)
		b.others, c.access.Brokers = append(b.others, other), append(c.access.Brokers, other.Addr())
	}
	var err error
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.access.Brokers...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	c.admin = kadm.NewClient(c.client)
	b.cluster, b.view = c, favorites()
	b.view.Settings = Settings{Topic: settingsOf(b.view).Topic, Create: true, Partitions: 6, Replication: 3}
	b.sink, b.target = c.open(t, b.view)
	return b
}

// persist applies ops until they are acknowledged.
func (b *threeBrokers) persist(ops ...replicator.Op) {
	b.t.Helper()
	_, err := b.target.Apply(b.t.Context(), ops)
	if k := b.target.(*Target).keepers[0]; err == nil {
		err = k.broken
	}
	for end := time.Now().Add(10 * time.Minute); err != nil; {
		if time.Now().After(end) {
			b.t.Fatal(err)
		}
		var target replicator.Target
		if target, err = b.sink.Open(b.t.Context(), "", []*replicator.View{b.view}); err == nil {
			b.target = target
			_, err = target.Apply(b.t.Context(), ops)
		}
	}
	for _, op := range ops {
		b.acknowledged[string(changelog.AppendKey(nil, op.Cell))] = op.Version
	}
}

func (b *threeBrokers) some() {
	b.t.Helper()
	for range 20 {
		b.step++
		b.persist(put(b.t, b.step%20, b.step, b.step))
	}
}

// holds fails the test unless the topic's newest rows are exactly the acknowledged ones.
func (b *threeBrokers) holds(when string) {
	b.t.Helper()
	if got := b.reader(settingsOf(b.view).Topic).versions(b.t); !maps.Equal(got, b.acknowledged) {
		b.t.Errorf("%s: the topic ends with %v, and acknowledged was %v", when, got, b.acknowledged)
	}
}

func (b *threeBrokers) each(brokers []*servers.Server, do func(*servers.Server) error) {
	b.t.Helper()
	for _, s := range brokers {
		if err := do(s); err != nil {
			b.t.Fatal(err)
		}
	}
}

// leader returns the broker that leads a cell's partition, or nil if that is the controller.
func (b *threeBrokers) leader(cell replicator.Cell) *servers.Server {
	b.t.Helper()
	topic := settingsOf(b.view).Topic
	topics, err := b.admin.ListTopics(b.t.Context(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	id := topics[topic].Partitions[int32(changelog.Partition(cell, 6))].Leader
	if id < 2 {
		return nil
	}
	return b.others[id-2]
}

func TestNothingAcknowledgedIsLostWithABroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	b := newThreeBrokers(t)
	for _, dies := range b.others {
		b.some()
		if err := dies.Kill(); err != nil {
			t.Fatal(err)
		}
		b.some()
		if err := dies.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.holds("after each was killed")
	for when, down := range map[string][]*servers.Server{
		"with too few copies in sync": b.others, "with all brokers down": append(b.others, b.first),
	} {
		b.each(down, (*servers.Server).Suspend)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := b.target.Apply(ctx, []replicator.Op{put(t, 1, 1000, 1000)}); err == nil {
			t.Errorf("%s it is acknowledged", when)
		}
		cancel()
		b.each(down, (*servers.Server).Resume)
		b.some()
		b.holds(when)
	}
	b.leaderDiesWithinATransaction()
	b.transactionDoesNotEnd()
}

// leaderDiesWithinATransaction kills the leader of one partition of a transaction. At that time the partitions have the
// records, and the transaction has not ended.
func (b *threeBrokers) leaderDiesWithinATransaction() {
	t := b.t.(*testing.T)
	before := maps.Clone(b.acknowledged)
	var ops []replicator.Op
	var records []*kgo.Record
	var dies *servers.Server
	for n := range int64(20) {
		b.step++
		op := put(t, n, b.step, b.step)
		ops = append(ops, op)
		if dies == nil {
			dies = b.leader(op.Cell)
		}
		r := changelog.Encode(&changelog.Record{Cell: op.Cell, Row: op.Values[0].Entries[0].Row, Codec: "json",
			State: replicator.State{Version: b.step, Order: b.step}})
		r.Topic, r.Partition = settingsOf(b.view).Topic, int32(changelog.Partition(op.Cell, 6))
		records = append(records, r)
	}
	if dies == nil {
		t.Fatal("the controller leads all partitions")
	}
	k := b.target.(*Target).keepers[0]
	k.mu.Lock()
	err := k.transact(t.Context(), records, func() []*kgo.Record {
		if err := dies.Kill(); err != nil {
			t.Error(err)
		}
		return nil
	})
	k.mu.Unlock()
	b.persist() // if the outcome is unknown, this opens the view again, which ends the transaction
	if got := b.reader(settingsOf(b.view).Topic).versions(t); err != nil && !maps.Equal(got, before) {
		for _, op := range ops { // a transaction with an unknown outcome is committed completely or not at all
			before[string(changelog.AppendKey(nil, op.Cell))] = op.Version
		}
		if !maps.Equal(got, before) {
			t.Errorf("a part of a transaction is seen after %v: %v", err, got)
		}
	}
	b.persist(ops...)
	b.holds("after a leader died within a transaction")
	if err := dies.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// transactionDoesNotEnd leaves a transaction open, as a killed publisher does, while a broker that leads one of its
// partitions does not answer. The next publisher must give up after a time instead of waiting for that broker.
func (b *threeBrokers) transactionDoesNotEnd() {
	k := b.target.(*Target).keepers[0]
	var away *servers.Server
	for n := int64(0); away == nil; n++ {
		away = b.leader(cellOf(b.t, n))
	}
	open := make([]*kgo.Record, 6) // in all partitions
	for p := range open {
		open[p] = changelog.EncodeMark(k.mark)
		open[p].Topic, open[p].Partition = k.topic.name, int32(p)
	}
	if err := errors.Join(k.producer.BeginTransaction(),
		k.producer.ProduceSync(b.t.Context(), open...).FirstErr()); err != nil {
		b.t.Fatal(err)
	}
	b.each([]*servers.Server{away}, (*servers.Server).Suspend)
	b.sink.takeover = 2 * time.Second
	next := &keeper{sink: b.sink, view: b.view, topic: k.topic}
	if err := next.takeOver(b.t.Context()); err == nil || replicator.IsFatal(err) ||
		!strings.Contains(err.Error(), "did not end the former publisher's transaction") {
		b.t.Errorf("it says %v", err)
	}
	next.producer.Close()
	b.each([]*servers.Server{away}, (*servers.Server).Resume)
	b.sink.takeover = time.Minute
	k.broken = errors.New("it was killed")
	b.some()
	b.holds("after a transaction that did not end")
}
