package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// publisher writes changelogs, as a sink of type kafka does.
type publisher struct {
	t       *testing.T
	cluster *kafka.Cluster
	admin   *kadm.Client
	client  *kgo.Client
	topic   string
}

// publish makes a topic with the given number of partitions.
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
	for end := time.Now().Add(10 * time.Minute); ; { // brokers learn of a topic a moment later
		if _, err := p.cluster.Topic(t.Context(), p.topic); err == nil {
			return p
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
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
	for end := time.Now().Add(10 * time.Minute); ; { // the end of a transaction reaches the partition a moment later
		all, err := p.admin.ListEndOffsets(p.t.Context(), p.topic)
		if err != nil {
			p.t.Fatal(err)
		}
		committed, err := p.admin.ListCommittedOffsets(p.t.Context(), p.topic)
		if err != nil {
			p.t.Fatal(err)
		}
		a, _ := all.Lookup(p.topic, partition)
		if c, ok := committed.Lookup(p.topic, partition); ok && c.Offset == a.Offset {
			return
		}
		if time.Now().After(end) {
			p.t.Fatal("the transaction is not committed")
		}
	}
}

func put(id, version, order, asOf int64, body string) *kgo.Record {
	r := &changelog.Record{Cell: cell(id), State: replicator.State{Version: version, Order: order,
		AsOf: asOf}, Codec: "json"}
	r.Row = &replicator.Row{Cell: r.Cell, Version: version, Order: order, Time: time.Unix(order, 0), Body: []byte(body)}
	return changelog.Encode(r)
}

func gone(id, asOf int64) *kgo.Record {
	return changelog.Encode(&changelog.Record{Cell: cell(id),
		State: replicator.State{Version: replicator.NoVersion, Order: asOf, AsOf: asOf}})
}

func mark(order int64) *kgo.Record {
	at := replicator.Position{Order: order, Token: fmt.Sprintf("origin %d", order)}
	return marked(replicator.Standing{Position: at})
}

// filling is the mark of a publisher that is still filling the topic.
func filling(order int64) *kgo.Record {
	return marked(replicator.Standing{Fill: map[string]replicator.Progress{},
		Position: replicator.Position{Order: order, Token: fmt.Sprintf("origin %d", order)}})
}

func marked(at replicator.Standing) *kgo.Record {
	return changelog.EncodeMark(&changelog.Mark{View: "log", Partitions: 2, Standing: at, Time: time.Now()})
}

// covers reports whether the position "origin N" includes the fence "M": whether N is at least M.
func covers(token, fence string) (bool, error) {
	var at, wanted int64
	_, err := fmt.Sscanf(token+" "+fence, "origin %d %d", &at, &wanted)
	return at >= wanted, err
}

func (p *publisher) source(partition int32) *kafka.Source {
	return p.cluster.Source(kafka.Config{Topic: p.topic, Partition: partition, Tables: []replicator.Table{table},
		Covers: covers})
}

// heard is a Handler that records each change as a line of text.
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

func (h *heard) Refer(context.Context, *replicator.Reference) error { return nil }

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

// read reads from a position to the partition's current end.
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
		case <-time.After(10 * time.Minute):
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
		{8, p.topic + "/1:8", true}, {8, p.topic + "/1:9", false}, {8, kafka.Fence("b", 0, "1"), false},
		{8, kafka.Fence("", 40, "1"), true}, {8, kafka.Fence("", 41, "1"), false},
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

func TestARecordThatIsNotAChangelogsIsADeadLetterOfEveryViewThatIsNamed(t *testing.T) {
	p := publish(t, 1, nil)
	p.write(0, put(1, 1, 1, 0, `{}`), kgo.KeySliceRecord([]byte("who"), []byte("knows")), put(2, 2, 2, 0, `{}`))
	s := p.source(0)
	_, told := p.read(s, p.oldest(s))
	equal(t, told, "cell.users 1 v1 put at 1: {}", "cell.users 77686f v2 put at 2: dead", "cell 77686f v2 put at 2: dead",
		"cell.users 2 v2 put at 2: {}")
}

func TestALookSaysWhatTheTopicHasAsOfTheLastMark(t *testing.T) {
	p := publish(t, 1, nil)
	s := p.source(0)
	r, err := s.Open(t.Context(), []replicator.Position{p.oldest(s)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.write(0, put(1, 1, 10, 0, `{"a":1}`), put(1, 2, 11, 0, `{"a":2}`), put(2, 3, 12, 0, `{}`), gone(2, 20), mark(30),
		put(3, 4, 40, 0, `{"a":4}`))
	cells := []replicator.Cell{cell(1), cell(2), cell(4), cell(3)}
	rows, asOf, err := r.Newest(t.Context(), cells, 0)
	if err != nil || asOf != 30 || len(rows) != 3 || string(rows[0].Body) != `{"a":2}` ||
		rows[1] != nil || rows[2] != nil {
		t.Errorf("rows %v as of %d: %v", rows, asOf, err)
	}
	rows, asOf, err = r.Newest(t.Context(), cells[3:], 0)
	if err != nil || asOf != 40 || len(rows) != 1 || string(rows[0].Body) != `{"a":4}` {
		t.Errorf("of what stands after the mark: rows %v as of %d: %v", rows, asOf, err)
	}
}

// A topic that was created again holds the rows that were left at that time. It does not know the versions that were
// deleted before.
func TestATopicLacksCellsAndVersionsThatItWasNeverTold(t *testing.T) {
	p := publish(t, 1, nil)
	s := p.source(0)
	p.write(0, filling(30), put(1, 2, 11, 0, `{}`), gone(2, 20), put(3, 4, 40, 0, `{}`))
	cells := []replicator.Cell{cell(1), cell(2), cell(3), cell(4), cell(5)}
	same := []int64{2, replicator.NoVersion, 4}
	if lacking, err := s.Lacks(t.Context(), cells[:3], same); err != nil || len(lacking) != 0 {
		t.Errorf("what it has it lacks: %v, %v", lacking, err)
	}
	known := []int64{3, replicator.NoVersion, 3, 7, replicator.NoVersion}
	_, err := s.Lacks(t.Context(), cells, known)
	if err == nil || !strings.Contains(err.Error(), "is still filling the topic") {
		t.Errorf("what is yet to come is taken for lacking: %v", err)
	}
	p.write(0, mark(50))
	lacking, err := s.Lacks(t.Context(), cells, known)
	if err != nil || !slices.Equal(lacking, []replicator.Cell{cell(1), cell(4), cell(5)}) {
		t.Errorf("it lacks %v: %v", lacking, err)
	}
}

// One of two partitions holds a cell. A source knows which one after it has read a mark, or if it starts from a
// position after a mark.
func TestAPartitionKnowsWhichCellsItCouldHold(t *testing.T) {
	p := publish(t, 2, nil)
	holding := 0
	for n := range int32(2) {
		p.write(n, mark(30))
		s := p.source(n)
		if s.Holds(cell(1)) {
			t.Errorf("partition %d holds a cell before a mark was read", n)
		}
		r, _ := p.read(s, p.oldest(s))
		again := p.source(n)
		reader, err := again.Open(t.Context(), []replicator.Position{r.Position(2)})
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Holds(cell(1)) != again.Holds(cell(1)) {
			t.Errorf("partition %d: whether it holds a cell depends on where reading began", n)
		}
		if s.Holds(cell(1)) {
			holding++
		}
	}
	if holding != 1 {
		t.Errorf("%d partitions hold a cell", holding)
	}
}

func TestATopicThatCannotBeReadOnIsRefused(t *testing.T) {
	p := publish(t, 1, nil)
	p.write(0, put(1, 1, 1, 0, `{}`), put(2, 2, 2, 0, `{}`), mark(3))
	s := p.source(0)
	begin := p.oldest(s)
	edited := func(replacements ...string) replicator.Position {
		return replicator.Position{Order: begin.Order, Token: strings.NewReplacer(replacements...).Replace(begin.Token)}
	}
	past := replicator.Position{Order: 99, Token: strings.Replace(begin.Token, `"offset":0`, `"offset":99`, 1)}
	old := edited(`"offset":0`, `"offset":1,"time":1`)
	for name, c := range map[string]struct {
		at    replicator.Position
		says  string
		fatal bool
	}{
		"another topic of the name":    {edited(`"id":"`, `"id":"x`), "created again", false},
		"an end before the checkpoint": {past, "lost records that they had acknowledged", false},
		"a reader that stood too long": {old, "delete.retention.ms", false},
		"another partition":            {edited(`"partition":0`, `"partition":7`), "a position in " + p.topic + "/7", true},
		"a position of another program": {replicator.Position{Token: `{"file":"binlog.000001"}`},
			"does not belong to a Kafka topic", true},
	} {
		_, err := s.Open(t.Context(), []replicator.Position{c.at})
		if err == nil || !strings.Contains(err.Error(), c.says) || replicator.IsFatal(err) != c.fatal ||
			!c.fatal && !errors.Is(err, replicator.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: p.topic, Partition: 0, At: 1})
	policy := func(to string) {
		t.Helper()
		_, err := p.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "cleanup.policy", Value: &to}}, p.topic)
		if err != nil {
			t.Fatal(err)
		}
	}
	refuses := func(says string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Minute); ; { // brokers learn of a setting a moment later
			_, err := s.Oldest(t.Context(), nil)
			if replicator.IsFatal(err) && strings.Contains(err.Error(), says) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("its beginning: %v, want %s", err, says)
			}
		}
	}
	policy("compact,delete")
	refuses("not compact alone")
	if _, err := p.admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	policy("compact")
	refuses("begins at offset 1")
	if _, err := p.cluster.Topic(t.Context(), servertest.Name()); !replicator.IsFatal(err) {
		t.Errorf("a topic that is missing: %v", err)
	}
}

// If a publisher forgot an epoch that it has published in, its new records count as older than what the views hold.
func TestAPublisherThatBeginsAgainInAnEarlierEpochIsRefused(t *testing.T) {
	p := publish(t, 1, nil)
	s := p.source(0)
	p.write(0, put(1, 1, 10, 0, `{"a":1}`), mark(20), put(1, 2, 1<<replicator.EpochShift+10, 0, `{"a":2}`),
		mark(1<<replicator.EpochShift+20))
	begin := p.oldest(s)
	r, _ := p.read(s, begin)
	end, err := r.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := r.Position(end.Order)
	p.write(0, mark(40))
	for name, from := range map[string]replicator.Position{"on": at, "from the beginning": begin} {
		r, err := s.Open(t.Context(), []replicator.Position{from})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		err = r.Read(ctx, &heard{more: make(chan struct{}, 1)})
		cancel()
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "another topic") {
			t.Errorf("read %s: %v", name, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
