package changelog

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Mark is a view's progress, kept in Kafka. The sink writes it to every partition of the topic, after the data that it
// covers, and to a separate topic of marks. A reader that has read a partition up to a mark has all changes of that
// partition's cells up to the mark's position.
type Mark struct {
	View        string
	Source      string // the shard's name; "" without shards
	Fingerprint string
	Standing    replicator.Standing
	Time        time.Time

	Partitions int // number of partitions that cells are spread over; partitions added later get none

	// Only the marks in the topic of marks have the fields below. The transaction that writes such a mark also writes
	// one into each partition of the data's topic.

	Topic     string  // Kafka's id of the data's topic, which changes if the topic is deleted and created again
	Offsets   []int64 // by partition: offset of the transaction's mark in that partition; nil in a view's first mark
	Forgotten []int64 // by partition: records before this offset may be of another definition of the view; nil: none
	Starts    []int64 // by partition: the log's first offset when the view was created; nil: 0
}

// MarksSuffix is added to a topic's name to make the name of the topic of its marks.
const MarksSuffix = ".marks"

type markKey struct {
	Mark   string `json:"mark"`
	Source string `json:"source,omitempty"`
}

type storedMark struct {
	Fingerprint string                    `json:"fingerprint"`
	Standing    replicator.StoredStanding `json:"standing"`
	Time        time.Time                 `json:"time"`
	Topic       string                    `json:"topic,omitempty"`
	Partitions  int                       `json:"partitions,omitempty"`
	Offsets     []int64                   `json:"offsets,omitempty"`
	Forgotten   []int64                   `json:"forgotten,omitempty"`
	Starts      []int64                   `json:"starts,omitempty"`
}

// Fewest returns the lower of two numbers of partitions; 0 means unknown.
func Fewest(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// MarkKey is the record key of a view's marks.
func MarkKey(view, source string) []byte { return mustMarshal(markKey{view, source}) }

// EncodeMark makes the Kafka record of m, without topic and partition.
func EncodeMark(m *Mark) *kgo.Record {
	return &kgo.Record{
		Key:     MarkKey(m.View, m.Source),
		Headers: []kgo.RecordHeader{{Key: headerOp, Value: []byte(opMark)}},
		Value: mustMarshal(storedMark{Fingerprint: m.Fingerprint, Standing: m.Standing.Stored(), Time: m.Time.UTC(),
			Topic: m.Topic, Partitions: m.Partitions, Offsets: m.Offsets, Forgotten: m.Forgotten, Starts: m.Starts}),
	}
}

// DecodeMark decodes a record that EncodeMark made. m is nil for a deleted mark, whose record has no value.
func DecodeMark(in *kgo.Record) (view, source string, m *Mark, err error) {
	var k markKey
	d := json.NewDecoder(bytes.NewReader(in.Key))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil || k.Mark == "" {
		return "", "", nil, notOurs("its key is not the key of a mark")
	}
	if in.Value == nil {
		return k.Mark, k.Source, nil, nil
	}
	var v storedMark
	if err := json.Unmarshal(in.Value, &v); err != nil || v.Standing.Phase == "" {
		return k.Mark, k.Source, nil, notOurs("the mark of view %s can't be read", k.Mark)
	}
	return k.Mark, k.Source, &Mark{View: k.Mark, Source: k.Source, Fingerprint: v.Fingerprint,
		Standing: v.Standing.Standing(), Time: v.Time, Topic: v.Topic, Partitions: v.Partitions, Offsets: v.Offsets,
		Forgotten: v.Forgotten, Starts: v.Starts}, nil
}

func mustMarshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("changelog: a mark is made of texts and numbers: " + err.Error())
	}
	return text
}
