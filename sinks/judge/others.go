package judge

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/internal/changelog"
)

// Sources are the sources that feed a sink, if there are several and an entity (the rows of one key) may move from one
// to another.
type Sources struct {
	Shards []string

	// Partitions returns the names (TOPIC/PARTITION) of all Kafka partitions that are read; nil: no topics are read.
	Partitions func(ctx context.Context) ([]string, error)
}

// Others are the sources, besides a given one, that may have a row of the same entity, in groups. Within a group, each
// key belongs to only one source. A shard is a group of its own; the partitions of a Kafka topic are one group, in
// their order.
type Others [][]string

// Others returns the sources besides the named one.
func (s Sources) Others(ctx context.Context, source string) (Others, error) {
	all := s.Shards
	if s.Partitions != nil {
		var err error
		if all, err = s.Partitions(ctx); err != nil {
			return nil, err
		}
	}
	if source == "" || !slices.Contains(all, source) {
		return nil, nil
	}
	own, _ := partition(source)
	var others Others
	last := own
	for _, name := range slices.SortedFunc(slices.Values(all), byPartition) {
		switch group, _ := partition(name); group {
		case own:
		case last:
			others[len(others)-1] = append(others[len(others)-1], name)
		default:
			others, last = append(others, []string{name}), group
		}
	}
	return others, nil
}

// partition splits a Kafka partition's name, TOPIC/PARTITION. For a shard's name, which has no slash, it returns the
// whole name and 0.
func partition(source string) (group string, n int) {
	i := strings.LastIndexByte(source, '/')
	if i < 0 {
		return source, 0
	}
	n, _ = strconv.Atoi(source[i+1:]) // no error: Kafka's partitions end in a decimal number
	return source[:i+1], n
}

func byPartition(a, b string) int {
	inA, numberA := partition(a)
	inB, numberB := partition(b)
	return cmp.Or(cmp.Compare(inA, inB), cmp.Compare(numberA, numberB))
}

// Of returns the sources in o that may have a row of a key: every shard, and the one partition of each Kafka topic that
// the key belongs to.
func (o Others) Of(key replicator.Key) (names []string) {
	for _, group := range o {
		n := 0
		if len(group) > 1 {
			n = changelog.Partition(replicator.Cell{Key: key}, len(group))
		}
		names = append(names, group[n])
	}
	return names
}

// Names returns the names of all sources in o.
func (o Others) Names() []string { return slices.Concat(o...) }
