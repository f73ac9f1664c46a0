package config

import (
	"slices"
	"time"

	"replicator/internal/nearest"
)

const sinkTimeout = 30 * time.Second

func keysOf(t SinkType) []string { return slices.Concat([]string{"type"}, t.Keys, []string{"timeout"}) }

func (l *loader) sinks(root *Section) {
	names, sections := root.named("sinks")
	for i, s := range sections {
		l.config.Sinks = append(l.config.Sinks, l.sink(names[i], s))
	}
}

// sink reads one sink. If its type is unknown, Sink.Type is empty, and the keys of the sink and its views can't be
// checked.
func (l *loader) sink(name string, s *Section) Sink {
	k := Sink{Name: name}
	var types []string
	for _, t := range l.types {
		types = append(types, t.Name)
		for _, key := range keysOf(t)[1:] {
			s.knows(key)
		}
	}
	s.Need("type", `"mysql"`)
	word := s.Name("type", "", `"mysql"`)
	if i := slices.Index(types, word); i >= 0 {
		k.Type, k.kind = word, l.types[i]
		k.Settings = k.kind.Read(s)
	} else if word != "" {
		s.Problem("type", "%q is not a type of sink%s", word, nearest.Meant(word, types))
	}
	k.Timeout = s.duration("timeout", sinkTimeout, 2*time.Second, time.Hour)
	if k.Type != "" {
		s.allowOnly(keysOf(k.kind), nil, "a "+k.Type+" sink")
	}
	s.reportKeys()
	return k
}
