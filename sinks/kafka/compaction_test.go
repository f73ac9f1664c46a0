package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/pause"
)

// Compaction keeps the last record of every key. So late versions and replays must not be written after the newest row.
func TestCompactionKeepsTheNewestRows(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	_, err := c.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Name: "segment.ms", Value: text("50")}, {Name: "min.cleanable.dirty.ratio", Value: text("0.001")},
		{Name: "max.compaction.lag.ms", Value: text("50")},
	}, topic)
	if err != nil {
		t.Fatal(err)
	}
	_, target := c.open(t, v)
	const versions = 10
	for version := range int64(versions) {
		apply(t, target, put(t, 1, 100+version, 10+version), put(t, 2, 100+version, 10+version))
	}
	late := apply(t, target, put(t, 1, 50, 90), put(t, 2, 105, 15))
	if len(late.Stale) != 2 {
		t.Fatalf("%+v", late)
	}
	// The constant is the number of written records. The topic may have fewer by now, because a busy broker may have
	// compacted most of them. A new record rolls the segment, and the broker compacts closed segments when it gets to
	// them. We write such a record only now and then, because a busy broker would never catch up with many.
	const written, looks = 2 * versions, 50
	for n := 0; c.records(topic) > written/2; n++ {
		if n == 40*looks {
			t.Fatal("it is not compacted")
		}
		if err := pause.For(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if n%looks == 0 {
			apply(t, target, put(t, 3, int64(n)+1, 200+int64(n)))
		}
	}
	got := c.reader(topic).versions(t)
	if got[`{"table":"fav","key":[1]}`] != 109 || got[`{"table":"fav","key":[2]}`] != 109 {
		t.Errorf("the topic ends with %v", got)
	}
	_, target = c.open(t, v)
	if applied := apply(t, target, put(t, 1, 108, 300), put(t, 2, 110, 300)); len(applied.Stale) != 1 {
		t.Errorf("of a compacted topic the next publisher knows too little: %+v", applied)
	}
}

// records returns the number of cells' records that a topic has.
func (c *cluster) records(topic string) (n int) {
	c.t.Helper()
	listed, err := c.admin.ListEndOffsets(c.t.Context(), topic)
	if err != nil || listed.Error() != nil {
		c.t.Fatal(err, listed.Error())
	}
	err = changelog.Read(c.t.Context(), []kgo.Opt{kgo.SeedBrokers(c.access.Brokers...)}, topic, nil,
		map[int32]int64{0: listed[topic][0].Offset}, func(records []*kgo.Record) error {
			for _, r := range records {
				if !changelog.IsMark(r) {
					n++
				}
			}
			return nil
		})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// Batches that arrive during a transaction are written together by the next one.
func TestBatchesThatWaitShareATransaction(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	_, opened := c.open(t, v)
	target := opened.(*Target)
	k := target.keepers[0]
	r := c.reader(topic)
	k.mu.Lock()
	before := r.ends()[0]
	const batches = 5
	done := make(chan error)
	for n := range int64(batches) {
		op := put(t, n, 1, 1)
		go func() {
			_, err := target.Apply(t.Context(), []replicator.Op{op})
			done <- err
		}()
	}
	for waiting := 0; waiting < batches; {
		k.waiting.mu.Lock()
		waiting = len(k.waiting.requests)
		k.waiting.mu.Unlock()
	}
	k.mu.Unlock()
	for range batches {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := r.versions(t); len(got) != batches {
		t.Errorf("it holds %v", got)
	}
	if after := r.ends()[0]; after > before+batches+2 { // 2: the records that end this transaction and the previous one
		t.Errorf("%d offsets are written for %d records", after-before, batches)
	}
}
