package kafka

import (
	"fmt"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/changelog"
)

// Settings are what the definition of a view in Kafka says besides what every view's does. The names and the order of
// its JSON are part of fingerprints: they never change.
type Settings struct {
	Topic string `json:"topic,omitempty"`

	// The rest says how topics are made, and is no part of what the view holds.
	Create      bool `json:"-"`
	Partitions  int  `json:"-"` // 0: defaultPartitions
	Replication int  `json:"-"` // 0: the cluster's default
}

// defaultPartitions is how many a topic gets: they are what appliers divide among themselves, and can't be changed
// later without filling the view anew.
const defaultPartitions = 12

// sourceName stands in a topic's name for that of the shard which it is of.
const sourceName = "{source}"

// topicOf is the topic of a view and a source.
func topicOf(v *replicator.View, source string) string {
	return strings.ReplaceAll(settingsOf(v).Topic, sourceName, source)
}

func settingsOf(v *replicator.View) Settings {
	s, _ := v.Settings.(Settings)
	if s.Topic == "" {
		s.Topic = v.Name
	}
	if s.Partitions == 0 {
		s.Partitions = defaultPartitions
	}
	return s
}

// Type is this type of sink.
func Type() config.SinkType {
	return config.SinkType{
		Name: "kafka", Keys: config.KafkaKeys(),
		Kinds: []config.Kind{{Name: kind, May: []string{"topic", "partitions", "replication", "create"}}},
		Read:  func(s *config.Section) any { return s.Kafka() }, ReadView: readView, Open: openSink,
	}
}

const kind = "changelog"

func readView(s *config.ViewSection) config.Target {
	v := s.View
	settings := Settings{Topic: s.Name("topic", v.Name, `"cells"`), Create: s.Bool("create"),
		Partitions:  int(s.Int("partitions", defaultPartitions, 1, 10_000)),
		Replication: int(s.Int("replication", 0, 0, 100))}
	v.Settings = settings
	target := config.Target{Key: "topic"}
	if problem := badOrigin(&s.Config.Source, settings.Topic); problem != "" {
		s.Problem("topic", "%s", problem)
		return target
	}
	at, _ := s.Sink.Settings.(config.Kafka)
	for _, shard := range s.Config.Source.ShardNames() {
		name := topicOf(v, shard)
		if problem := badTopic(name); problem != "" {
			s.Problem("topic", "%s", problem)
			break
		}
		for _, broker := range at.Brokers { // of one cluster, whatever the number of sinks
			target.Places = append(target.Places, broker+"\x00"+name, broker+"\x00"+name+changelog.MarksSuffix)
		}
	}
	return target
}

// badOrigin says why a topic would not have one origin, or one that readers could tell.
func badOrigin(source *config.Source, topic string) string {
	named := strings.Contains(topic, sourceName)
	sharded := len(source.Shards) > 0 && source.Shards[0].Name != ""
	switch {
	case source.Kafka != nil:
		return "[source] is a changelog in Kafka, whose partitions are sources: a topic is kept for one source alone, " +
			"so publish it where the tables are read"
	case sharded && !named:
		return fmt.Sprintf("a topic is kept for one shard of the source: let its name hold %s, as in %q, and have the "+
			"members read all of them", sourceName, topic+"-"+sourceName)
	case !sharded && named:
		return fmt.Sprintf("%s is the name of a shard, and [source] has no shards: leave it out", sourceName)
	}
	return ""
}

// badTopic says what Kafka would refuse in a topic's name.
func badTopic(name string) string {
	legal := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case strings.TrimFunc(name, legal) != "" || strings.IndexFunc(name, func(r rune) bool { return !legal(r) }) >= 0:
		return "Kafka allows letters, digits, . _ and - in the name of a topic"
	case name == "." || name == "..":
		return "Kafka does not allow this name of a topic"
	case len(name)+len(changelog.MarksSuffix) > 249:
		return "the name of a topic has at most 243 bytes, because the program adds to it"
	}
	return ""
}

func openSink(o config.Opening) (replicator.Sink, error) {
	access, err := o.Sink.Settings.(config.Kafka).Access()
	if err != nil {
		return nil, err
	}
	access.Timeout = o.Sink.Timeout
	c := Config{Name: o.Sink.Name, Access: access, Views: o.Views, Sources: o.Sources, Codecs: map[string]string{}}
	for _, t := range o.Tables {
		c.Codecs[t.Name] = t.Codec
	}
	return New(c)
}
