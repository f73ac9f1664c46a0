package kafka

import (
	"fmt"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/changelog"
)

// Settings are a view's settings that only Kafka sinks have. Their JSON is part of the fingerprint, the hash of a
// view's definition, so the form of the JSON must never change.
type Settings struct {
	Topic string `json:"topic,omitempty"`

	// Create, Partitions and Replication say how to create a missing topic. The fingerprint leaves them out, because
	// they don't affect the view's content.
	Create      bool `json:"-"`
	Partitions  int  `json:"-"` // 0: defaultPartitions
	Replication int  `json:"-"` // 0: the cluster's default number of replicas
}

// defaultPartitions is the default number of partitions of a new topic. At most this many processes can read the topic
// as a group. The number can't be changed later without refilling the view.
const defaultPartitions = 12

// sourceName is the placeholder for the shard's name in a topic's name.
const sourceName = "{source}"

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

// Type returns what the configuration must know of Kafka sinks: their keys, their kind of view, and how to make one.
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
		for _, broker := range at.Brokers { // two sinks of one cluster must not share a topic
			target.Places = append(target.Places, broker+"\x00"+name, broker+"\x00"+name+changelog.MarksSuffix)
		}
	}
	return target
}

// badOrigin returns why a topic's name does not fit the configured source, or "" if it does. A topic can hold the
// records of only one database.
func badOrigin(source *config.Source, topic string) string {
	named := strings.Contains(topic, sourceName)
	sharded := len(source.Shards) > 0 && source.Shards[0].Name != ""
	switch {
	case source.Kafka != nil:
		return "[source] reads a topic, and each of its partitions is a source. But a topic can hold the records of " +
			"only one source. Publish the view from the configuration whose [source] is the database"
	case sharded && !named:
		return fmt.Sprintf("a topic can hold only one shard of the source. Write %s in the topic's name, as in %q, "+
			"and list the topics of all shards in [source] topics of the replicators that read them", sourceName,
			topic+"-"+sourceName)
	case !sharded && named:
		return fmt.Sprintf("%s stands for the name of a shard, but [source] has no shards. Leave it out", sourceName)
	}
	return ""
}

// badTopic returns why Kafka would refuse a topic's name, or "" if Kafka accepts the name.
func badTopic(name string) string {
	legal := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case strings.TrimFunc(name, legal) != "" || strings.IndexFunc(name, func(r rune) bool { return !legal(r) }) >= 0:
		return "Kafka allows only letters, digits, . _ and - in a topic's name"
	case name == "." || name == "..":
		return "Kafka does not allow this topic name"
	case len(name)+len(changelog.MarksSuffix) > 249:
		return "a topic's name can have at most 243 bytes, because the program appends a suffix"
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
