package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

func cellOf(t testing.TB, n int64) replicator.Cell {
	t.Helper()
	key, err := replicator.MakeKey(n)
	if err != nil {
		t.Fatal(err)
	}
	return replicator.Cell{Table: "fav", Key: key}
}

// put returns an op that sets cell n to a row whose body contains the version.
func put(t testing.TB, n, version, order int64) replicator.Op {
	t.Helper()
	row := &replicator.Row{Body: fmt.Appendf(nil, `{"v":%d}`, version)}
	return replicator.Op{Cell: cellOf(t, n), Version: version, Order: order,
		Values: []replicator.Value{{Entries: []replicator.Entry{{Row: row}}}}}
}

// favorites returns a changelog view of the table fav.
func favorites() *replicator.View { return changelogOf("favorites", replicator.Feed{Table: "fav"}) }

func (c *cluster) open(t testing.TB, v *replicator.View) (*Sink, replicator.Target) {
	t.Helper()
	s := c.sink(t, v)
	s.cfg.Codecs = map[string]string{"fav": "json"}
	return s, reopened(t, s, v)
}

func reopened(t testing.TB, s *Sink, v *replicator.View) replicator.Target {
	t.Helper()
	target, err := s.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func apply(t testing.TB, target replicator.Target, ops ...replicator.Op) replicator.Applied {
	t.Helper()
	applied, err := target.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// versions returns the versions in the bodies of a topic's newest records, by key.
func (r *reader) versions(t testing.TB) map[string]int64 {
	t.Helper()
	versions := map[string]int64{}
	for key, value := range r.read(t) {
		if !strings.HasPrefix(key, `{"mark"`) {
			var row struct{ Body struct{ V int64 } }
			if err := json.Unmarshal(value, &row); err != nil {
				t.Fatal(err)
			}
			versions[key] = row.Body.V
		}
	}
	return versions
}

func TestTopicsThatCanNotBeUsedAreTheViewsOwnTrouble(t *testing.T) {
	c := newCluster(t)
	make := func(name, policy string) {
		if made, err := c.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": text(policy)},
			name); err != nil || made.Err != nil {
			t.Fatal(err, made.Err)
		}
	}
	views := map[string]*replicator.View{}
	var all []*replicator.View
	for _, name := range []string{"missing", "deleting", "many replicas", "fine"} {
		views[name] = favorites()
		views[name].Name = name
		all = append(all, views[name])
	}
	make(settingsOf(views["deleting"]).Topic, "compact,delete")
	make(settingsOf(views["deleting"]).Topic+changelog.MarksSuffix, "compact")
	for _, name := range []string{"many replicas", "fine"} {
		settings := settingsOf(views[name])
		settings.Create, settings.Partitions, settings.Replication = true, 2, 1
		views[name].Settings = settings
	}
	settings := settingsOf(views["many replicas"])
	settings.Replication = 3
	views["many replicas"].Settings = settings
	s := c.sink(t, all...)
	_, err := s.Open(t.Context(), "", all)
	groups, others := replicator.Troubled(all, err)
	if len(groups) != 3 || len(others) != 1 || others[0].Name != "fine" || !replicator.IsFatal(err) {
		t.Fatalf("%d groups, others %v: %v", len(groups), others, err)
	}
	for _, says := range []string{"there is no topic", "cleanup.policy=compact,delete", "replication factor"} {
		if !strings.Contains(strings.ToLower(err.Error()), says) {
			t.Errorf("%q is not said: %v", says, err)
		}
	}
	levels := map[string]int{}
	for _, f := range s.Check(t.Context(), all) {
		levels[string(f.Level)]++
		if f.Level == replicator.Fail && f.Fix == "" {
			t.Errorf("no fix: %+v", f)
		}
	}
	if levels["fail"] != 3 || levels["ok"] != 1 || levels["warn"] == 0 { // one replica, or not created yet
		t.Errorf("%v", levels)
	}
}

func TestANewerPublisherFencesTheOlder(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	c.topic(settingsOf(v).Topic, 2)
	_, older := c.open(t, v)
	apply(t, older, put(t, 1, 5, 50))
	_, newer := c.open(t, v)
	if applied := apply(t, newer, put(t, 1, 4, 60)); len(applied.Stale) != 1 {
		t.Errorf("the newer one does not know what the older one wrote: %+v", applied)
	}
	_, err := older.Apply(t.Context(), []replicator.Op{put(t, 1, 6, 70)})
	if !replicator.IsFatal(err) || !errors.Is(err, replicator.ErrTakenOver) {
		t.Errorf("the older one: %v", err)
	}
	if _, again := older.Apply(t.Context(), []replicator.Op{put(t, 2, 1, 80)}); again == nil {
		t.Error("it writes on")
	}
	apply(t, newer, put(t, 2, 1, 80))
	if got := c.reader(settingsOf(v).Topic).versions(t); len(got) != 2 || got[`{"table":"fav","key":[1]}`] != 5 {
		t.Errorf("the topic ends with %v", got)
	}
}

func TestALookFencesNobodyUntilItWrites(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	s := c.sink(t, v)
	s.cfg.Codecs = map[string]string{"fav": "json"}
	if _, err := s.Look(t.Context(), "", []*replicator.View{v}); !replicator.IsFatal(err) ||
		!strings.Contains(err.Error(), "there is no topic") {
		t.Errorf("of a topic that there is not it says %v", err)
	}
	c.topic(topic, 2)
	_, publisher := c.open(t, v)
	apply(t, publisher, put(t, 1, 5, 50))
	if _, err := s.await(t.Context(), topicOf(v, "")); err != nil { // its client caches metadata for 100 ms
		t.Fatal(err)
	}
	look, err := s.Look(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	cells := []replicator.Cell{cellOf(t, 1), cellOf(t, 2)}
	for version := int64(6); version < 9; version++ {
		apply(t, publisher, put(t, 1, version, 10*version), put(t, 2, version, 10*version))
		got, err := look.Versions(t.Context(), cells)
		if err != nil || got[0].Lowest != version || got[1].Lowest != version {
			t.Fatalf("it sees %v, %v; want %d", got, err, version)
		}
		if cells, _, err := look.(interface {
			Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error)
		}).Held(t.Context(), 0, "", 10); err != nil || len(cells) != 2 {
			t.Fatal(cells, err)
		}
	}
	at := replicator.Standing{Position: replicator.Position{Order: 90, Token: "p"}}
	if err := look.Mark(t.Context(), at); err == nil {
		t.Error("it marks what it only looks at")
	}
	if applied := apply(t, look, put(t, 1, 7, 70), put(t, 2, 9, 90)); len(applied.Stale) != 1 {
		t.Errorf("it does not know what the publisher wrote: %+v", applied)
	}
	if _, err := publisher.Apply(t.Context(), []replicator.Op{put(t, 1, 10, 100)}); !replicator.IsFatal(err) {
		t.Errorf("the publisher: %v", err)
	}
	got := c.reader(topic).versions(t)
	if got[`{"table":"fav","key":[1]}`] != 8 || got[`{"table":"fav","key":[2]}`] != 9 {
		t.Errorf("the topic ends with %v", got)
	}
}

// `verify --repair` in the publishing process writes the view by a second target.
func TestALookByTheSinkThatPublishesWritesBesideIt(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	c.topic(settingsOf(v).Topic, 2)
	s, publisher := c.open(t, v)
	apply(t, publisher, put(t, 1, 5, 50), put(t, 2, 5, 50))
	look, err := s.Look(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	if applied := apply(t, look, put(t, 1, 4, 40), put(t, 2, 6, 60)); len(applied.Stale) != 1 {
		t.Errorf("it does not know what the publisher wrote: %+v", applied)
	}
	if applied := apply(t, publisher, put(t, 1, 6, 60), put(t, 2, 5, 55)); len(applied.Stale) != 1 {
		t.Errorf("the publisher does not know what was repaired: %+v", applied)
	}
	got := c.reader(settingsOf(v).Topic).versions(t)
	if got[`{"table":"fav","key":[1]}`] != 6 || got[`{"table":"fav","key":[2]}`] != 6 {
		t.Errorf("the topic ends with %v", got)
	}
	if _, err := s.Open(t.Context(), "", []*replicator.View{v}); err != nil {
		t.Fatal(err)
	}
	if _, err := look.Apply(t.Context(), []replicator.Op{put(t, 1, 7, 70)}); err == nil {
		t.Error("it writes on though the view was opened anew")
	}
}

// ahead is a hook that adds by to every record's timestamp, as if the machine's clock were wrong.
type ahead struct{ by atomic.Int64 }

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (a *ahead) OnProduceRecordBuffered(r *kgo.Record) {
	r.Timestamp = r.Timestamp.Add(time.Duration(a.by.Load()))
}

// A broker refuses records whose timestamp is more than an hour ahead of its own clock. (The test can't use a small
// message.timestamp.before.max.ms instead. Brokers also apply it to the record that ends a transaction. If that record
// is a millisecond late, the transaction stays open until the brokers restart.)
func TestAClockThatIsWrongIsNamed(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	s := c.sink(t, v)
	s.cfg.Codecs = map[string]string{"fav": "json"}
	var clock ahead
	s.options = append(s.options, kgo.WithHooks(&clock))
	target := reopened(t, s, v)
	apply(t, target, put(t, 1, 1, 10))
	clock.by.Store(int64(2 * time.Hour))
	_, err := target.Apply(t.Context(), []replicator.Op{put(t, 2, 1, 20)})
	if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "Correct the clocks") {
		t.Errorf("it says %v", err)
	}
	clock.by.Store(0)
	target = reopened(t, s, v)
	apply(t, target, put(t, 1, 2, 1_000_000))
	if got := c.reader(topic).versions(t); len(got) != 1 || got[`{"table":"fav","key":[1]}`] != 2 {
		t.Errorf("the topic ends with %v", got)
	}
}

func TestAReplayOfAnOldCheckpointWritesNothingAndATableIsReadFromTheTopic(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	_, target := c.open(t, v)
	ops := []replicator.Op{put(t, 1, 10, 10), put(t, 2, 11, 11)}
	apply(t, target, ops...)
	apply(t, target, put(t, 1, 20, 20))
	_, target = c.open(t, v)
	r := c.reader(topic)
	before := r.ends()[0]
	apply(t, target, ops...)
	apply(t, target, put(t, 1, 20, 20))
	if after := r.ends()[0]; after != before {
		t.Errorf("%d offsets were written", after-before)
	}
	if got := r.versions(t); got[`{"table":"fav","key":[1]}`] != 20 || got[`{"table":"fav","key":[2]}`] != 11 {
		t.Errorf("the topic ends with %v", got)
	}
}

func TestRecordsOfOthersAreNamed(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	c.produce(&kgo.Record{Topic: topic, Key: []byte("user:1"), Value: []byte("x")})
	s := c.sink(t, v)
	_, err := s.Open(t.Context(), "", []*replicator.View{v})
	if !replicator.IsFatal(err) || !errors.Is(err, changelog.ErrNotOurs) ||
		!strings.Contains(err.Error(), "partition 0, offset 0") {
		t.Errorf("%v", err)
	}
}

// marked creates a topic, opens the view on it, and writes a cell and then a mark.
func (c *cluster) marked(t *testing.T, v *replicator.View, at replicator.Standing) (*Sink, replicator.Target) {
	t.Helper()
	c.topic(settingsOf(v).Topic, 1)
	s, target := c.open(t, v)
	apply(t, target, put(t, 1, 1, 1))
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	return s, target
}

func TestATopicThatWasMadeAnewHasLostItsView(t *testing.T) {
	c, v, at := newCluster(t), favorites(), replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}}
	topic := settingsOf(v).Topic
	s, target := c.marked(t, v, at)
	if marks, err := s.Marks(t.Context(), ""); err != nil || len(marks) != 1 || marks[0].Position != at.Position {
		t.Fatalf("%+v, %v", marks, err)
	}
	c.remove(t, topic)
	if made, err := c.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": text("compact")},
		topic); err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	if _, err := s.await(t.Context(), topicOf(v, "")); err != nil {
		t.Fatal(err)
	}
	s.lacks(t, "topic "+topic+" ") // the client caches the old topic's description for a moment
	if err := target.Mark(t.Context(), at); err == nil {
		t.Error("the loss is not noticed")
	}
	_, target = c.open(t, v)
	if applied := apply(t, target, put(t, 1, 1, 1)); len(applied.Stale) != 0 {
		t.Error("what was lost is taken for known")
	}
}

// Retention or an operator removes a topic's first records. The topic's end and the marks there stay.
func TestATopicThatLostItsBeginningHasLostItsView(t *testing.T) {
	c, v, at := newCluster(t), favorites(), replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}}
	topic := settingsOf(v).Topic
	s, target := c.marked(t, v, at)
	c.cut(topic, 1)
	s.lacks(t, "partition 0 of topic "+topic+" begins at offset 1")
	at.Position.Order++
	if err := target.Mark(t.Context(), at); !errors.Is(err, replicator.ErrSinkLost) ||
		!strings.Contains(err.Error(), "begins at offset 1") {
		t.Errorf("the running publisher says %v", err)
	}
	s, target = c.open(t, v)
	if applied := apply(t, target, put(t, 1, 1, 1)); len(applied.Stale) != 0 {
		t.Error("what was lost is taken for known")
	}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if marks, err := s.Marks(t.Context(), ""); err != nil || len(marks) != 1 {
		t.Errorf("filled anew, it is known by %+v, %v", marks, err)
	}
}

// lacks fails the test unless the view's mark says what was lost and has no position.
func (s *Sink) lacks(t testing.TB, what string) {
	t.Helper()
	marks, err := s.Marks(t.Context(), "")
	if err != nil || len(marks) != 1 {
		t.Fatalf("%+v, %v", marks, err)
	}
	m := marks[0]
	if !errors.Is(m.Lost, replicator.ErrSinkLost) || !strings.Contains(m.Lost.Error(), what) ||
		!m.Position.IsZero() || !m.Filling() {
		t.Errorf("the mark is %+v", m)
	}
}

func TestATransactionThatIsGivenUpSaysWhyInOneLine(t *testing.T) {
	c, v := newCluster(t), favorites()
	_, target := c.marked(t, v, replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}})
	ctx, giveUp := context.WithCancelCause(t.Context())
	giveUp(errors.New("no broker answers"))
	_, err := target.Apply(ctx, []replicator.Op{put(t, 2, 20, 20)})
	if err == nil || !strings.Contains(err.Error(), "no broker answers") || strings.Contains(err.Error(), "\n") ||
		strings.Contains(err.Error(), "sink ") { // the pipeline adds the sink's name
		t.Errorf("it says %v", err)
	}
}

// cut removes the records before an offset from a topic's partition 0.
func (c *cluster) cut(topic string, to int64) {
	c.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: to})
	policy := func(policy string) {
		c.t.Helper()
		cleanup := []kadm.AlterConfig{{Name: "cleanup.policy", Value: &policy}}
		_, err := c.admin.AlterTopicConfigs(c.t.Context(), cleanup, topic)
		if err != nil {
			c.t.Fatal(err)
		}
	}
	policy("compact,delete") // with compact alone, Kafka refuses to delete records
	for done, end := false, time.Now().Add(10*time.Minute); !done; {
		answer, err := c.admin.DeleteRecords(c.t.Context(), offsets) // brokers learn about the setting a moment later
		if done = err == nil && answer.Error() == nil; !done && time.Now().After(end) {
			c.t.Fatal(err, answer)
		}
	}
	policy("compact")
	for shown, end := "", time.Now().Add(10*time.Minute); shown != "compact"; { // seen a moment later, like the other
		configs, err := c.admin.DescribeTopicConfigs(c.t.Context(), topic)
		if err != nil || time.Now().After(end) {
			c.t.Fatal(shown, err)
		}
		for _, setting := range configs[0].Configs {
			if setting.Key == "cleanup.policy" {
				shown = setting.MaybeValue()
			}
		}
	}
}

func text(s string) *string { return &s }

// A publisher that is killed during a transaction leaves it open, also in the marks topic. The transaction ends after
// 30 s, or when the next publisher takes the view over. But the next publisher must read the marks before that.
func TestMarksAreReadPastATransactionThatIsOpen(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 1)
	s, target := c.open(t, v)
	at := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}}
	}
	mark := func(order int64) {
		t.Helper()
		if err := target.Mark(t.Context(), at(order)); err != nil {
			t.Fatal(err)
		}
	}
	mark(10)
	k := target.(*Target).keepers[0]
	stray := func(id string, order int64) *kgo.Client {
		t.Helper()
		killed, err := kgo.NewClient(kgo.SeedBrokers(c.access.Brokers...), kgo.TransactionalID(id+topic))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(killed.Close)
		m := *k.mark
		m.Standing = at(order)
		r := changelog.EncodeMark(&m)
		r.Topic = k.topic.marks.name
		if err := errors.Join(killed.BeginTransaction(), killed.ProduceSync(t.Context(), r).FirstErr()); err != nil {
			t.Fatal(err)
		}
		return killed
	}
	read := func(want int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if marks, err := s.Marks(ctx, ""); err != nil || len(marks) != 1 || marks[0].Position.Order != want {
			t.Errorf("%+v, %v; want the mark at %d", marks, err, want)
		}
	}
	open := stray("open", 90)
	read(10)
	mark(20) // after the open transaction
	read(20)
	if err := stray("aborted", 91).EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	read(20)
	_, next, _, err := s.readMarks(t.Context(), k.topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Minute); ; { // brokers acknowledge a commit before they write it
		found, _, _, err := s.readMarks(t.Context(), k.topic, next)
		if err == nil && found[place{"", v.Name}].mark != nil {
			return
		}
		if err != nil || time.Now().After(late) {
			t.Fatalf("what was committed later is not found behind %d: %v, %v", next, found, err)
		}
	}
}
