package changelog

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Mark is how far the publisher of a view has come. It stands in the topic of marks, where it says what the sink
// remembers of the view, and in every partition, behind all that it stands for: who reads a partition up to it has
// read all changes of that partition's cells up to the mark's position.
type Mark struct {
	View        string
	Source      string // the shard's name
	Fingerprint string
	Standing    replicator.Standing
	Time        time.Time // when it was written

	Partitions int // those that cells are spread over

	// The rest only stands in the topic of marks.

	Topic     string  // the topic's id: a topic that was made anew has another one
	Offsets   []int64 // by partition: where the mark of the same transaction stands; nil before the first
	Forgotten []int64 // by partition: what stands before is not known, as of another definition; nil: all is known
	Starts    []int64 // by partition: where it began when the view was begun; nil: at 0
}

// MarksSuffix ends the name of the topic that holds a topic's marks.
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

// Fewest is the lower of two numbers of partitions, of which 0 is none.
func Fewest(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// MarkKey is the key of a view's marks.
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

// DecodeMark reads what EncodeMark made. A mark that was taken away, which has no value, is nil.
func DecodeMark(in *kgo.Record) (view, source string, m *Mark, err error) {
	var k markKey
	d := json.NewDecoder(bytes.NewReader(in.Key))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil || k.Mark == "" {
		return "", "", nil, notOurs("its key is no mark's")
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
