package service

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/kafka"
)

func TestARecordOfOthersIsADeadLetterAndHoldsNothingUp(t *testing.T) {
	l := newTopicLab(t)
	l.publish(map[int64]string{1: "ada"})
	stranger, err := kgo.NewClient(kgo.SeedBrokers(l.broker), kgo.DefaultProduceTopic(l.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	r := &kgo.Record{Key: []byte("user:1"), Value: []byte(`{"name": "eve"}`), Partition: 2}
	if err := stranger.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := l.member()
	l.waits(m, l.publish(map[int64]string{2: "grace"}))
	l.equal("beside a record that is not ours")
	var letters []replicator.DeadLetter
	for letter, err := range m.store.List(t.Context(), "users") {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, letter)
	}
	at := fmt.Sprintf("%s/2:%d", l.topic, r.Offset)
	if len(letters) == 0 || !strings.Contains(letters[0].Reason, at) || letters[0].Source != l.topic+"/2" {
		t.Errorf("the letters are %+v, and none names %s", letters, at)
	}
}

func TestPartitionsThatAreAddedHoldNothingUp(t *testing.T) {
	l := newTopicLab(t)
	m := l.member()
	l.waits(m, l.publish(map[int64]string{1: "ada", 2: "grace"}))
	added, err := kadm.NewClient(l.client).UpdatePartitions(t.Context(), topicPartitions+1, l.topic)
	if err == nil {
		err = added.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	// A client refuses unknown partitions, and nothing makes it ask the brokers again. So connect creates a new client.
	eventually(t, "the broker tells of the partition", func() bool {
		topics, err := kadm.NewClient(l.client).ListTopics(t.Context(), l.topic)
		return err == nil && len(topics[l.topic].Partitions) == topicPartitions+1
	})
	l.connect()
	l.partitions++
	fence := l.publish(map[int64]string{1: "ada 2"})
	l.waits(m, fence)
	l.equal("after a partition was added")
	// A client caches a topic's metadata for some seconds (kgo.MetadataMinAge). A later wait for a fence makes the
	// member take the new partition, too.
	eventually(t, "the member has the partition", func() bool {
		l.waits(m, fence)
		own, _, _ := has(t, m)
		return own == topicPartitions+1
	})
	l.equal("with the partition")
}

func TestCheckSaysThatMembersBeyondThePartitionsHaveNothingToDo(t *testing.T) {
	l := newTopicLab(t)
	setup := l.setup(slog.New(slog.DiscardHandler))
	cluster, err := setup.cluster()
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	nothing := func([]kafka.Partition) {}
	group := groupOf(setup.Config, "cache")
	for range topicPartitions + 1 {
		g, err := cluster.Join(t.Context(), kafka.GroupConfig{Group: group, Topics: []string{l.topic}, Identity: "x",
			Assigned: nothing, Revoked: nothing, Lost: nothing})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Leave()
	}
	eventually(t, "check warns", func() bool {
		findings, err := Check(t.Context(), setup)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level == replicator.Warn && strings.Contains(f.What, group) &&
				strings.Contains(f.Detail, "5 members for 4 partitions") {
				return true
			}
		}
		return false
	})
}

// Each record has the source's schema at the time when its row was written. A row without a column that a view uses is
// a dead letter until a newer row has the column.
func TestASchemaThatChangesBetweenTwoRecordsIsFollowed(t *testing.T) {
	l := newTopicLab(t)
	l.fields = `{ name = "name", mail = "$mail" }`
	m := l.member()
	publish := func(n int, id int64, columns ...string) (fence string) {
		l.row = func(r *replicator.Row) {
			for _, name := range columns {
				r.Names, r.Columns = append(r.Names, name), append(r.Columns, any(fmt.Sprint(name, n)))
			}
		}
		return l.publish(map[int64]string{id: fmt.Sprint("u", n)})
	}
	holds := func(fence string, want ...string) {
		t.Helper()
		l.waits(m, fence)
		for i, want := range want {
			got := l.redis.HGet(t.Context(), fmt.Sprintf("%s:%d", l.topic, i), "mail").Val()
			if got != want {
				t.Errorf("user %d has mail %q, want %q", i, got, want)
			}
		}
	}
	publish(0, 0, "id", "mail")
	publish(1, 1, "nick", "mail", "id") // more columns, in another order
	holds(publish(2, 2, "id", "nick"), "mail0", "mail1", "")
	if n, err := m.store.Count(t.Context()); err != nil || n["users"] != 1 {
		t.Errorf("%v dead letters: %v", n, err)
	}
	holds(publish(3, 2, "mail"), "mail0", "mail1", "mail3")
	if n, err := m.store.Count(t.Context()); err != nil || n["users"] != 0 {
		t.Errorf("%v dead letters are left: %v", n, err)
	}
}

func TestMembersGoOnOnceTheBrokersAreBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker of its own, twice")
	}
	broker := servertest.Own(t, servers.Kafka)
	l := newTopicLabAt(t, broker.Addr())
	m := l.member()
	l.waits(m, l.publish(map[int64]string{1: "ada", 2: "grace"}))
	if err := broker.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status says that the brokers are down", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		all, err := m.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			if v.State == replicator.StateRetrying && v.Error != "" {
				return true
			}
		}
		return false
	})
	l.equal("while the brokers are down")
	if err := broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.waits(m, l.publish(map[int64]string{1: "ada 2", 3: "edsger"}))
	l.equal("once they are back")
}

// Silent brokers don't refuse connections, so requests to them could wait without end.
func TestMembersAnswerAndEndWhileTheBrokersAreSilent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker of its own")
	}
	broker := servertest.Own(t, servers.Kafka)
	l := newTopicLabAt(t, broker.Addr())
	a, b := l.member(), l.member()
	l.waits(a, l.publish(map[int64]string{1: "ada", 2: "grace"}))
	eventually(t, "both have partitions", func() bool {
		own, _, nobodys := has(t, a)
		return own == topicPartitions/2 && nobodys == 0
	})
	silence(t, broker)
	looks := func(m *member) (own int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		all, err := m.Status(ctx)
		if err != nil || ctx.Err() != nil {
			t.Fatalf("the status took too long: %v", err)
		}
		said := false
		for _, v := range all {
			if v.Source != "" {
				own++
			}
			said = said || v.State == replicator.StateRetrying && strings.Contains(v.Error, "group "+l.topic+".cache")
		}
		if !said {
			t.Errorf("the status does not tell that the group is silent: %+v", all)
		}
		return own
	}
	ends := func(m *member) {
		t.Helper()
		m.stop()
		select {
		case err := <-m.done:
			m.done <- err // the lab's cleanup receives it
		case <-time.After(10 * time.Minute):
			t.Error("a member that is to end waits for brokers that are silent")
		}
	}
	if own := looks(a); own != topicPartitions/2 {
		t.Errorf("the status tells of %d own partitions", own)
	}
	ends(a)
	eventually(t, "the other gives its partitions up", func() bool { return looks(b) == 0 })
	ends(b)
}

func TestTheLagGrowsWhileTheBrokersAreSilentAlsoOfWhatTheMemberGaveUp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker of its own")
	}
	broker := servertest.Own(t, servers.Kafka)
	l := newTopicLabAt(t, broker.Addr())
	m := l.member()
	l.waits(m, l.publish(map[int64]string{1: "ada", 2: "grace"}))
	silence(t, broker)
	lags := func() (own int, least float64) {
		all, err := m.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		least = math.Inf(1)
		for _, v := range all {
			if v.Source != "" {
				own++
			}
			if v.LagSeconds == nil {
				t.Fatalf("the lag is not known: %+v", v)
			}
			least = min(least, *v.LagSeconds)
		}
		return own, least
	}
	if own, _ := lags(); own != topicPartitions {
		t.Fatalf("the member has %d partitions", own)
	}
	eventually(t, "the member gives its partitions up", func() bool { own, _ := lags(); return own == 0 })
	_, before := lags()
	if _, now := lags(); now <= before || before < 1 {
		t.Errorf("the lag was %v s, and is %v s", before, now)
	}
	if err := broker.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member has its partitions again", func() bool {
		own, _, _ := has(t, m)
		return own == topicPartitions
	})
	l.waits(m, l.publish(map[int64]string{1: "ada 2"}))
	if _, least := lags(); least > 2 {
		t.Errorf("the lag is %v s once the brokers are back", least)
	}
}

// silence suspends a broker until the test ends.
func silence(t *testing.T, broker *servers.Server) {
	t.Helper()
	if err := broker.Suspend(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Resume(); err != nil {
			t.Error(err)
		}
	})
}
