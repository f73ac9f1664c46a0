package kafka

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"replicator"
)

// token is the content of a Position's Token, as JSON.
type token struct {
	Topic     string `json:"topic"`
	ID        string `json:"id"` // the topic's id, which changes if the topic is deleted and created again
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // the next offset to read

	// Mark says how far the publisher has read its database, according to its last mark before Offset.
	Mark mark `json:"mark,omitzero"`

	// Partitions is the number of partitions that hold cells, as the publisher has recorded it; 0: not read yet.
	Partitions int32 `json:"partitions,omitempty"`

	// Time is when a reader at Offset had missed no tombstone (the record that deletes a key), in Unix seconds; 0: not
	// known. Kafka keeps a tombstone for at least delete.retention.ms. So a reader that continues at Offset within that
	// period after Time misses none.
	Time int64 `json:"time,omitempty"`
}

// mark says how far the publisher has read its database. It is zero until the publisher has recorded any progress.
type mark struct {
	Source string `json:"source,omitempty"` // name of the shard that the publisher reads; "" without shards
	replicator.Position
}

func place(topic string, partition int32, offset int64) string {
	return name(topic, partition) + ":" + strconv.FormatInt(offset, 10)
}

func name(topic string, partition int32) string { return topic + "/" + strconv.Itoa(int(partition)) }

// TopicOf returns the topic of the source with this name; "" if the name is not that of a partition.
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
		panic("kafka: encoding a position as JSON: " + err.Error()) // can't happen: texts and numbers always marshal
	}
	return string(text)
}

func parseToken(text string) (t token, err error) {
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.Topic == "" {
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position does not belong to a Kafka topic"))
	}
	return t, nil
}

// Describe formats a position's token for users: TOPIC/PARTITION:OFFSET. It returns false for a text that is not a
// token of this package.
func Describe(text string) (shown string, ok bool) {
	t, err := parseToken(text)
	if err != nil {
		return "", false
	}
	return place(t.Topic, t.Partition, t.Offset), true
}

// Fence makes a fence, a log position to wait for (Reader.Includes). `at` is a position in the log of the publisher's
// database, and `shard` is the database's name ("" without shards). `since` is the lowest Order of the server that the
// publisher reads now; 0: unknown. A position whose publisher had a lower Order than `since` does not include the
// fence: that publisher still read an earlier server, where the same FILE:POS is another place.
func Fence(shard string, since int64, at string) string {
	if shard != "" {
		at += ofShard + shard
	}
	if since > 0 {
		at += sinceOrder + strconv.FormatInt(since, 10)
	}
	return at
}

// IsPlace reports whether a text has the form of a partition's position, as Describe formats it.
func IsPlace(text string) bool {
	i := strings.LastIndexByte(text, '/')
	partition, offset, ok := strings.Cut(text[i+1:], ":")
	_, notPartition := strconv.ParseInt(partition, 10, 32)
	_, notOffset := strconv.ParseInt(offset, 10, 64)
	return i > 0 && ok && notPartition == nil && notOffset == nil
}

// The separators between the parts of a fence (see Fence). No position or name contains a separator.
const (
	inTopic    = " in topic "    // before a topic's id
	ofShard    = " of shard "    // before a shard's name
	sinceOrder = " since order " // before an Order
)

// Covers reports whether a position of a MySQL or MariaDB source, given by its Token, includes a fence: a GTID set, or
// FILE:POS.
type Covers func(token, fence string) (bool, error)

func (t token) includes(fence string, covers Covers) (bool, error) {
	if at, ok := strings.CutPrefix(fence, name(t.Topic, t.Partition)+":"); ok {
		at, id, known := strings.Cut(at, inTopic)
		if known && id != t.ID { // the topic was deleted and created again
			return false, nil
		}
		if offset, err := strconv.ParseInt(at, 10, 64); err == nil {
			return t.Offset >= offset, nil
		}
	}
	fence, text, _ := strings.Cut(fence, sinceOrder)
	since, _ := strconv.ParseInt(text, 10, 64) // 0 if the fence has no Order
	fence, shard, _ := strings.Cut(fence, ofShard)
	if t.Mark.IsZero() || t.Mark.Source != shard || t.Mark.Order < since {
		return false, nil
	}
	return covers(t.Mark.Token, fence)
}

// Includes reports whether a position of a partition includes everything up to a fence (see Fence).
func Includes(p replicator.Position, fence string, covers Covers) (bool, error) {
	t, err := parseToken(p.Token)
	if err != nil {
		return false, err
	}
	return t.includes(fence, covers)
}

// timeStep is the precision of a token's Time. Each new Time of an idle partition costs a save.
const timeStep = time.Minute
