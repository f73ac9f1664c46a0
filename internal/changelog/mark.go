package changelog

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Mark says how far a view's publisher, the sink that writes the topic, has come. The publisher writes the mark to
// every partition, after the data that it covers, and to the marks topic. A reader that has read a partition up to a
// mark has all changes of that partition's cells up to the mark's position.
type Mark struct {
	View        string
	Source      string // the shard's name
	Fingerprint string
	Standing    replicator.Standing
	Time        time.Time // when the mark was written

	Partitions int // number of partitions that have cells

	// The fields below are only in the marks topic.

	Topic     string  // id of the topic, which changes if the topic is deleted and created again
	Offsets   []int64 // by partition: where the same transaction wrote a mark to the partition; nil in the first mark
	Forgotten []int64 // by partition: records before this offset are from a different definition of the view; nil: none
	Starts    []int64 // by partition: the log's first offset when the view was created; nil: 0
}

// MarksSuffix ends the name of the marks topic, after the name of the data's topic.
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

// MarkKey is the key of the records that are a view's marks.
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
