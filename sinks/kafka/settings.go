package kafka

import (
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
	if problem := badTopic(settings.Topic); problem != "" {
		s.Problem("topic", "%s", problem)
	}
	v.Settings = settings
	target := config.Target{Key: "topic"}
	at, _ := s.Sink.Settings.(config.Kafka)
	for _, broker := range at.Brokers { // of one cluster, whatever the number of sinks
		for _, topic := range []string{settings.Topic, settings.Topic + changelog.MarksSuffix} {
			target.Places = append(target.Places, broker+"\x00"+topic)
		}
	}
	return target
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
