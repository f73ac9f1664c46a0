package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
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

	// Marks are the publisher's last ones before the offset, by the origin's shard.
	Marks marks `json:"marks,omitempty"`

	// Partitions are those that the publisher spreads cells over, as its marks say; 0: none was read yet.
	Partitions int32 `json:"partitions,omitempty"`

	// Time is when all that stands before the offset was all that there was, or the record before it was written, or
	// reading began at the first record, whichever was last, in Unix seconds; 0: not known.
	Time int64 `json:"time,omitempty"`
}

// marks are places of the origin up to which everything was read, by its shards. One is never changed.
type marks map[string]replicator.Position

// with is m with another mark.
func (m marks) with(source string, at replicator.Position) marks {
	next := maps.Clone(m)
	if next == nil {
		next = marks{}
	}
	next[source] = at
	return next
}

// low is the lowest Order of the marks; 0 without any.
func (m marks) low() (order int64) {
	for _, at := range m {
		if order == 0 || at.Order < order {
			order = at.Order
		}
	}
	return order
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

// Fence names a place in the log of one of the origin's shards ("": of an origin without shards), for Reader.Includes.
// A place of a partition, as Describe shows it, is a fence, too.
func Fence(shard, at string) string {
	if shard == "" {
		return at
	}
	return shard + shardEnd + at
}

// IsPlace tells whether a text has the form of a place in a partition, as Describe shows it.
func IsPlace(text string) bool {
	i := strings.LastIndexByte(text, '/')
	partition, offset, ok := strings.Cut(text[i+1:], ":")
	_, notPartition := strconv.ParseInt(partition, 10, 32)
	_, notOffset := strconv.ParseInt(offset, 10, 64)
	return i > 0 && ok && notPartition == nil && notOffset == nil
}

// shardEnd stands in no shard's name.
const shardEnd = "@"

// Covers says whether a place of a MySQL or MariaDB source, by its Position's Token, includes what a fence names: a
// GTID set, or FILE:POS.
type Covers func(token, fence string) (bool, error)

// includes reports whether all that a fence names stands before a position.
func (t token) includes(fence string, covers Covers) (bool, error) {
	if at, ok := strings.CutPrefix(fence, name(t.Topic, t.Partition)+":"); ok {
		if offset, err := strconv.ParseInt(at, 10, 64); err == nil {
			return t.Offset >= offset, nil
		}
	}
	shard := ""
	if before, after, named := strings.Cut(fence, shardEnd); named {
		shard, fence = before, after
	}
	mark, known := t.Marks[shard]
	if !known {
		return false, nil
	}
	return covers(mark.Token, fence)
}

// timeStep is how often a position that doesn't move says that it is at the end still: each saying is a save.
const timeStep = time.Minute
