package kafka

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"replicator"
)

// token is what a Position's Token holds.
type token struct {
	Topic     string `json:"topic"`
	ID        string `json:"id"` // of the topic
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // that is read next

	// Mark is the publisher's last one before the offset.
	Mark mark `json:"mark,omitzero"`

	// Partitions are those that the publisher spreads cells over, as its marks say; 0: none was read yet.
	Partitions int32 `json:"partitions,omitempty"`

	// Time is when all that stands before the offset was all that there was, or the record before it was written, or
	// reading began at the first record, whichever was last, in Unix seconds; 0: not known.
	Time int64 `json:"time,omitempty"`
}

// mark is the place of the origin up to which everything was read: zero before the first.
type mark struct {
	Source string `json:"source,omitempty"` // the origin: a shard's name
	replicator.Position
}

// place shows a partition, and an offset in it, to a person.
func place(topic string, partition int32, offset int64) string {
	return name(topic, partition) + ":" + strconv.FormatInt(offset, 10)
}

// name is a source's name.
func name(topic string, partition int32) string { return topic + "/" + strconv.Itoa(int(partition)) }

// TopicOf is the topic of which a source of that name is a partition; "" if it is none.
func TopicOf(source string) string {
	topic, _, is := strings.Cut(source, "/")
	if !is {
		return ""
	}
	return topic
}

func (t token) position() replicator.Position {
	return replicator.Position{Order: t.Offset, Token: jsonOf(t)}
}

func jsonOf(token any) string {
	text, err := json.Marshal(token)
	if err != nil {
		panic("kafka: a token is made of texts and numbers: " + err.Error())
	}
	return string(text)
}

func parseToken(text string) (t token, err error) {
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.Topic == "" {
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position is not one of a Kafka topic"))
	}
	return t, nil
}

// Describe shows a position's token to a person: TOPIC/PARTITION:OFFSET. What isn't a token of this package is not
// shown.
func Describe(text string) (shown string, ok bool) {
	t, err := parseToken(text)
	if err != nil {
		return "", false
	}
	return place(t.Topic, t.Partition, t.Offset), true
}

// Fence names a place in the log of an origin (a shard's name, "" without shards), for Reader.Includes. Places of the
// origin below the order since include nothing of it: FILE:POS is a place of the server that the publisher reads now,
// and Orders of an earlier one are lower. A place of a partition, as Describe shows it, is a fence, too.
func Fence(shard string, since int64, at string) string {
	if shard != "" {
		at += ofShard + shard
	}
	if since > 0 {
		at += sinceOrder + strconv.FormatInt(since, 10)
	}
	return at
}

// IsPlace tells whether a text has the form of a place in a partition, as Describe shows it.
func IsPlace(text string) bool {
	i := strings.LastIndexByte(text, '/')
	partition, offset, ok := strings.Cut(text[i+1:], ":")
	_, notPartition := strconv.ParseInt(partition, 10, 32)
	_, notOffset := strconv.ParseInt(offset, 10, 64)
	return i > 0 && ok && notPartition == nil && notOffset == nil
}

// What stands in neither a place nor a name.
const (
	inTopic    = " in topic " // its id
	ofShard    = " of shard "
	sinceOrder = " since order "
)

// Covers says whether a place of a MySQL or MariaDB source, by its Position's Token, includes what a fence names: a
// GTID set, or FILE:POS.
type Covers func(token, fence string) (bool, error)

// includes reports whether all that a fence names stands before a position.
func (t token) includes(fence string, covers Covers) (bool, error) {
	if at, ok := strings.CutPrefix(fence, name(t.Topic, t.Partition)+":"); ok {
		at, id, known := strings.Cut(at, inTopic)
		if known && id != t.ID { // it was deleted and made anew
			return false, nil
		}
		if offset, err := strconv.ParseInt(at, 10, 64); err == nil {
			return t.Offset >= offset, nil
		}
	}
	fence, text, _ := strings.Cut(fence, sinceOrder)
	since, _ := strconv.ParseInt(text, 10, 64) // 0 where none is named
	fence, shard, _ := strings.Cut(fence, ofShard)
	if t.Mark.IsZero() || t.Mark.Source != shard || t.Mark.Order < since {
		return false, nil
	}
	return covers(t.Mark.Token, fence)
}

// Includes reports whether a position of a partition includes what a fence names.
func Includes(p replicator.Position, fence string, covers Covers) (bool, error) {
	t, err := parseToken(p.Token)
	if err != nil {
		return false, err
	}
	return t.includes(fence, covers)
}

// timeStep is how often a position that doesn't move says that it is at the end still: each saying is a save.
const timeStep = time.Minute
