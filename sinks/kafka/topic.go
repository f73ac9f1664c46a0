package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/pause"
)

// topic is a view's topic as the cluster describes it.
type topic struct {
	name       string
	id         string // the topic's id, which changes if it is deleted and created again; "" if there is no topic
	partitions int
	replicas   int // the lowest number of replicas that a partition has
	inSync     int // the lowest number of in-sync replicas that a partition has
	compacted  bool
	policy     string
	minInSync  string
	largest    int    // maximum size of a batch, in bytes
	marks      *topic // the topic NAME.marks with the view's progress; nil if it does not exist
}

// describe asks the cluster about a topic and its marks topic.
func (s *Sink) describe(ctx context.Context, name string) (*topic, error) {
	topics, err := s.admin.ListTopics(ctx, name, name+changelog.MarksSuffix)
	if err != nil {
		return nil, fmt.Errorf("asking for topic %s: %w", name, err)
	}
	data, err := s.oneTopic(ctx, topics[name], name)
	if err != nil {
		return nil, err
	}
	marks, err := s.oneTopic(ctx, topics[name+changelog.MarksSuffix], name+changelog.MarksSuffix)
	if err != nil {
		return nil, err
	}
	if marks.id != "" {
		data.marks = marks
	}
	return data, nil
}

func (s *Sink) oneTopic(ctx context.Context, d kadm.TopicDetail, name string) (*topic, error) {
	t := &topic{name: name}
	if errors.Is(d.Err, kerr.UnknownTopicOrPartition) || d.Err == nil && len(d.Partitions) == 0 {
		return t, nil
	}
	if d.Err != nil {
		return nil, fmt.Errorf("asking for topic %s: %w", name, d.Err)
	}
	t.id, t.partitions = d.ID.String(), len(d.Partitions)
	for i, p := range d.Partitions.Sorted() {
		if i == 0 || len(p.Replicas) < t.replicas {
			t.replicas = len(p.Replicas)
		}
		if i == 0 || len(p.ISR) < t.inSync {
			t.inSync = len(p.ISR)
		}
	}
	configs, err := s.admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("asking for the settings of topic %s: %w", name, err)
	}
	for _, c := range configs {
		if errors.Is(c.Err, kerr.UnknownTopicOrPartition) { // the topic was deleted between the two requests
			return &topic{name: name}, nil
		}
		if c.Err != nil {
			return nil, fmt.Errorf("asking for the settings of topic %s: %w", name, c.Err)
		}
		for _, setting := range c.Configs {
			switch value := setting.MaybeValue(); setting.Key {
			case "cleanup.policy":
				t.policy = value
				t.compacted = value == "compact" // with compact,delete, Kafka would remove records of existing rows
			case "min.insync.replicas":
				t.minInSync = value
			case "max.message.bytes":
				if t.largest, err = strconv.Atoi(value); err != nil {
					return nil, fmt.Errorf("topic %s: max.message.bytes: %w", name, err)
				}
			}
		}
	}
	return t, nil
}

// topic returns a view's topic for a source. It creates a missing topic if the view has create = true. If the topic is
// unusable, only this view fails.
func (s *Sink) topic(ctx context.Context, v *replicator.View, source string) (*topic, error) {
	t, err := s.describe(ctx, topicOf(v, source))
	if err != nil {
		return nil, err
	}
	if settingsOf(v).Create && (t.id == "" || t.marks == nil) {
		if err := s.create(ctx, v, t); err != nil {
			return nil, err
		}
		if t, err = s.await(ctx, t.name); err != nil {
			return nil, err
		}
	}
	if err := s.usable(v, t); err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Sink) usable(v *replicator.View, t *topic) error {
	refuse := func(format string, args ...any) error {
		return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: %s", v.Name,
			fmt.Sprintf(format, args...))), v.Name)
	}
	switch {
	case t.id == "":
		return refuse("there is no topic %s. Create it (docs/kafka.md), or set create = true", t.name)
	case !t.compacted:
		return refuse("%s", notCompacted(t))
	case t.marks == nil:
		return refuse("there is no topic %s%s. Create it (docs/kafka.md), or set create = "+
			"true", t.name, changelog.MarksSuffix)
	case !t.marks.compacted:
		return refuse("%s", notCompacted(t.marks))
	case t.marks.partitions != 1:
		return refuse("topic %s has %d partitions, but the topic of the marks must have exactly 1. Delete this topic, "+
			"and create it again with 1 partition", t.marks.name, t.marks.partitions)
	}
	return nil
}

// await returns the description of topics that were just created. It waits, because brokers learn about new topics a
// moment later.
func (s *Sink) await(ctx context.Context, name string) (*topic, error) {
	for end := time.Now().Add(10 * time.Second); ; {
		t, err := s.describe(ctx, name)
		if err != nil || t.id != "" && t.marks != nil || time.Now().After(end) {
			return t, err
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func notCompacted(t *topic) string {
	return fmt.Sprintf("topic %s has cleanup.policy=%s, which deletes records of existing rows. Set it to compact",
		t.name, t.policy)
}

// create creates the topic and its marks topic, if they are missing.
func (s *Sink) create(ctx context.Context, v *replicator.View, t *topic) error {
	settings := settingsOf(v)
	// Tombstones stay a week, because a publisher may restart from a checkpoint that is a week old.
	policy, week := "compact", "604800000"
	config := map[string]*string{"cleanup.policy": &policy, "delete.retention.ms": &week}
	if settings.Replication > 2 {
		two := "2"
		config["min.insync.replicas"] = &two
	}
	replication := int16(settings.Replication)
	if replication == 0 {
		replication = -1 // the cluster's default
	}
	for name, partitions := range map[string]int{t.name: settings.Partitions, t.name + changelog.MarksSuffix: 1} {
		if name == t.name && t.id != "" || name != t.name && t.marks != nil {
			continue
		}
		made, err := s.admin.CreateTopic(ctx, int32(partitions), replication, config, name)
		if err == nil {
			err = made.Err
		}
		switch {
		case err == nil || errors.Is(err, kerr.TopicAlreadyExists):
		case errors.Is(err, kerr.InvalidReplicationFactor), errors.Is(err, kerr.TopicAuthorizationFailed),
			errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.PolicyViolation):
			return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: making topic %s: %w %s", v.Name, name, err,
				made.ErrMessage)), v.Name)
		default:
			return fmt.Errorf("making topic %s: %w", name, err)
		}
	}
	return nil
}

func (s *Sink) ends(ctx context.Context, topics ...string) (map[string]map[int32]int64, error) {
	listed, err := s.admin.ListEndOffsets(ctx, topics...)
	return s.offsets(listed, err, "end", topics)
}

// starts returns the offsets at which a topic's partitions begin. Compaction does not change these offsets. If they
// rise, retention or a user removed records.
func (s *Sink) starts(ctx context.Context, topic string) (map[int32]int64, error) {
	listed, err := s.admin.ListStartOffsets(ctx, topic)
	starts, err := s.offsets(listed, err, "beginning", []string{topic})
	return starts[topic], err
}

func (s *Sink) offsets(listed kadm.ListedOffsets, err error, what string, topics []string) (
	map[string]map[int32]int64, error,
) {
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the %s of topic %s: %w", what,
			strings.Join(topics, ", "), err)
	}
	offsets := map[string]map[int32]int64{}
	for name, partitions := range listed {
		offsets[name] = map[int32]int64{}
		for p, o := range partitions {
			offsets[name][p] = o.Offset
		}
	}
	return offsets, nil
}

// lost checks whether a topic still has the data that m covers. The first error says what the topic has lost, the
// second why lost could not check.
func (s *Sink) lost(ctx context.Context, t *topic, m *changelog.Mark) (error, error) {
	if t.id != m.Topic {
		return fmt.Errorf("topic %s was deleted and created again: %w", t.name, replicator.ErrSinkLost), nil
	}
	ends, err := s.ends(ctx, t.name)
	if err != nil {
		return nil, err
	}
	starts, err := s.starts(ctx, t.name)
	if err != nil {
		return nil, err
	}
	return errors.Join(lostBelow(t.name, ends[t.name], m.Offsets), lostAbove(t.name, starts, m.Starts)), nil
}

// lostAbove returns an error that names a partition that now begins later than when the view was created.
func lostAbove(name string, starts map[int32]int64, begun []int64) error {
	for p, start := range starts {
		before := int64(0)
		if int(p) < len(begun) {
			before = begun[p]
		}
		if start > before {
			return fmt.Errorf("partition %d of topic %s begins at offset %d, but began at %d before. The records in "+
				"between were removed by retention or by hand (set cleanup.policy=compact): %w", p, name, start, before,
				replicator.ErrSinkLost)
		}
	}
	return nil
}

func lostBelow(name string, ends map[int32]int64, marked []int64) error {
	for p, offset := range marked {
		if end := ends[int32(p)]; end <= offset {
			return fmt.Errorf("partition %d of topic %s ends at offset %d, but had a record at "+
				"%d: %w", p, name, end, offset,
				replicator.ErrSinkLost)
		}
	}
	return nil
}
