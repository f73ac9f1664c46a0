package kafka

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"replicator"
)

// token is the content of a Position's Token.
type token struct {
	Topic     string `json:"topic"`
	ID        string `json:"id"` // the topic's id
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // the next offset to read

	// Mark is the publisher's last mark before the offset.
	Mark mark `json:"mark,omitzero"`

	// Partitions is how many partitions the publisher spreads cells over, according to its marks; 0: no mark was read
	// yet.
	Partitions int32 `json:"partitions,omitempty"`

	// Time is the latest of three times, in Unix seconds: when the offset was the end of the partition, when the record
	// before the offset was written, and when a reader began at the partition's first record. 0: not known.
	Time int64 `json:"time,omitempty"`
}

// mark says up to which position the publisher has read the origin. It is zero before the publisher's first mark.
type mark struct {
	Source string `json:"source,omitempty"` // the origin: the shard's name
	replicator.Position
}

// place formats a partition and an offset in it for users.
func place(topic string, partition int32, offset int64) string {
	return name(topic, partition) + ":" + strconv.FormatInt(offset, 10)
}

// name returns a source's name.
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
		panic("kafka: a token is made of texts and numbers: " + err.Error())
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

// Fence makes a fence for Reader.Includes. The parameter `at` is a position in an origin's log, and `shard` is the
// origin's name ("" without shards). `since` is the lowest Order of a position that can include the fence: a FILE:POS
// belongs to the server that the publisher reads now, and all Orders from earlier servers are lower. A partition's
// position, as Describe formats it, is also a fence.
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

// Separators between the parts of a fence. Neither positions nor names contain them.
const (
	inTopic    = " in topic "    // followed by the topic's id
	ofShard    = " of shard "    // followed by the origin's name
	sinceOrder = " since order " // followed by the lowest Order that can include the fence
)

// Covers reports whether a position of a MySQL or MariaDB source, given by its Token, includes a fence: a GTID set, or
// FILE:POS.
type Covers func(token, fence string) (bool, error)

// includes reports whether a position includes everything up to a fence.
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
	since, _ := strconv.ParseInt(text, 10, 64) // 0 if the fence names no order
	fence, shard, _ := strings.Cut(fence, ofShard)
	if t.Mark.IsZero() || t.Mark.Source != shard || t.Mark.Order < since {
		return false, nil
	}
	return covers(t.Mark.Token, fence)
}

// Includes reports whether a position of a partition includes a fence.
func Includes(p replicator.Position, fence string, covers Covers) (bool, error) {
	t, err := parseToken(p.Token)
	if err != nil {
		return false, err
	}
	return t.includes(fence, covers)
}

// timeStep is how often the Time of an idle position is updated. Each update costs a save.
const timeStep = time.Minute
