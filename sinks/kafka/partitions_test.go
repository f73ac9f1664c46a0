package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// add adds partitions to a topic.
func (c *cluster) add(t testing.TB, s *Sink, v *replicator.View, partitions int) {
	t.Helper()
	added, err := c.admin.UpdatePartitions(t.Context(), partitions, settingsOf(v).Topic)
	if err == nil {
		err = added.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Minute); ; { // brokers learn about new partitions a moment later
		topic, err := s.describe(t.Context(), topicOf(v, ""))
		if err != nil || time.Now().After(late) {
			t.Fatal(topic, err)
		}
		if topic.partitions == partitions {
			return
		}
	}
}

// remove deletes a topic.
func (c *cluster) remove(t testing.TB, name string) {
	t.Helper()
	if _, err := c.admin.DeleteTopic(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Minute); ; {
		topics, err := c.admin.ListTopics(t.Context(), name)
		if err != nil || time.Now().After(late) {
			t.Fatal(topics, err)
		}
		if topics[name].Err != nil {
			return
		}
	}
}

// A cell must not move to another partition, because then two partitions would have a newest record of it. So
// partitions that are added stay empty as long as the topic exists, whatever happens to the view and its marks.
func TestATopicKeepsTheNumberOfPartitionsThatItBeganWith(t *testing.T) {
	c := newCluster(t)
	for name, happens := range map[string]func(t testing.TB, s *Sink, v *replicator.View){
		"nothing else": func(testing.TB, *Sink, *replicator.View) {},
		"the definition is changed": func(_ testing.TB, _ *Sink, v *replicator.View) {
			v.Fingerprint = "2"
		},
		"the view is named anew": func(t testing.TB, s *Sink, v *replicator.View) {
			if err := s.Forget(t.Context(), v.Name); err != nil {
				t.Fatal(err)
			}
			v.Settings, v.Name = settingsOf(v), "others"
		},
		"its mark is forgotten": func(t testing.TB, s *Sink, v *replicator.View) {
			if err := s.Forget(t.Context(), v.Name); err != nil {
				t.Fatal(err)
			}
		},
		"the topic loses its beginning": func(_ testing.TB, _ *Sink, v *replicator.View) {
			c.cut(settingsOf(v).Topic, 1)
		},
		"the topic loses a partition's records, and the topic of marks all": func(
			t testing.TB, _ *Sink, v *replicator.View,
		) {
			c.cut(settingsOf(v).Topic, -1)
			c.remove(t, settingsOf(v).Topic+changelog.MarksSuffix)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := favorites()
			settings := settingsOf(v)
			settings.Create, settings.Partitions, settings.Replication = true, 2, 1
			v.Settings = settings
			s, target := c.open(t, v)
			put := func(version int64) (ops []replicator.Op) {
				for n := range int64(30) {
					ops = append(ops, put(t, n, version, version))
				}
				return ops
			}
			apply(t, target, put(1)...)
			at := replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}}
			if err := target.Mark(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			c.add(t, s, v, 3)
			happens(t, s, v)
			for range 2 { // once more with the mark that the first process wrote
				s, target = c.open(t, v)
				apply(t, target, put(2)...)
			}
			if applied := apply(t, reopened(t, s, v), put(1)...); len(applied.Stale) != 30 {
				t.Errorf("what was written is not known: %d are stale", len(applied.Stale))
			}
			k := target.(*Target).keepers[0]
			if k.mark.Partitions != 2 || len(k.mark.Offsets) != 3 {
				t.Errorf("the mark says %d partitions, and stands in %d", k.mark.Partitions, len(k.mark.Offsets))
			}
			where := c.partitions(t, s, settings.Topic)
			for n := range int64(30) {
				cell := cellOf(t, n)
				want := []int32{int32(changelog.Partition(cell, 2))}
				if in := where[string(changelog.AppendKey(nil, cell))]; !slices.Equal(in, want) {
					t.Errorf("cell %d stands in partitions %v, and not in %v", n, in, want)
				}
			}
		})
	}
}

// partitions returns the partitions that have records of each key, except the keys of marks.
func (c *cluster) partitions(t testing.TB, s *Sink, topic string) map[string][]int32 {
	t.Helper()
	ends, err := s.ends(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]int32{}
	err = changelog.Read(t.Context(), s.options, topic, nil, ends[topic], func(records []*kgo.Record) error {
		for _, r := range records {
			if key := string(r.Key); !changelog.IsMark(r) && !slices.Contains(where[key], r.Partition) {
				where[key] = append(where[key], r.Partition)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// Without any mark, the sink can't know over how many partitions the cells are spread.
func TestATopicWithCellsAndNoMarkIsRefused(t *testing.T) {
	c := newCluster(t)
	v := favorites()
	topic := settingsOf(v).Topic
	c.topic(topic, 2)
	r := changelog.Encode(&changelog.Record{Cell: cellOf(t, 1), State: replicator.State{Version: 1, Order: 1, AsOf: 1}})
	r.Topic = topic
	c.produce(r)
	s := c.sink(t, v)
	for range 2 { // the refused Open must not write a mark
		_, err := s.Open(t.Context(), "", []*replicator.View{v})
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "Set another topic") {
			t.Errorf("%v", err)
		}
	}
}
