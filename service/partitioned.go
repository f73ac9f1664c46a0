package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"replicator"
	"replicator/config"
	"replicator/kafka"
	"replicator/verify"
)

// partitioned is what a sink has of all partitions of a source in Kafka, as one target to look at and to repair: the
// states of a cell are kept under the name of its partition.
type partitioned struct {
	topics []topicTargets
	all    []replicator.Target
	names  []string // of the sources that feed them
}

// topicTargets are those of one topic.
type topicTargets struct {
	publisher kafka.Publisher
	first     int // of its partitions, among all targets
}

// newPartitioned makes one target of those of several partitions. What stands in a view's target and came from no cell
// any of them finds.
func newPartitioned(s *partitioned) replicator.Target {
	if tidier, ok := s.all[0].(replicator.Tidier); ok {
		return struct {
			*partitioned
			replicator.Tidier
		}{s, tidier}
	}
	return s
}

// routes are the targets that keep cells, by their places among all. Which of several topics has a cell is not known
// but from the versions that the sink has: one that it has none of is the first topic's.
func (s *partitioned) routes(ctx context.Context, cells []replicator.Cell) ([]int, error) {
	routes := make([]int, len(cells))
	found := make([]bool, len(cells))
	for n, topic := range s.topics {
		by := map[int][]int{}
		for i, c := range cells {
			if at := topic.first + topic.publisher.PartitionOf(c); !found[i] {
				if by[at] = append(by[at], i); n == 0 {
					routes[i] = at
				}
			}
		}
		if len(s.topics) == 1 {
			break
		}
		for at, of := range by {
			some := make([]replicator.Cell, len(of))
			for i, place := range of {
				some[i] = cells[place]
			}
			versions, err := s.all[at].Versions(ctx, some)
			if err != nil {
				return nil, err
			}
			for i, place := range of {
				if versions[i].Highest != replicator.NoVersion {
					routes[place], found[place] = at, true
				}
			}
		}
	}
	return routes, nil
}

// sources are the names of the partitions that have cells.
func (s *partitioned) sources(ctx context.Context, cells []replicator.Cell) ([]string, error) {
	routes, err := s.routes(ctx, cells)
	if err != nil {
		return nil, err
	}
	return pick(s.names, routes), nil
}

// each gives do the cells of each target, by their places.
func (s *partitioned) each(
	ctx context.Context, cells []replicator.Cell, do func(t replicator.Target, places []int) error,
) error {
	routes, err := s.routes(ctx, cells)
	if err != nil {
		return err
	}
	by := make([][]int, len(s.all))
	for i, at := range routes {
		by[at] = append(by[at], i)
	}
	for at, places := range by {
		if len(places) > 0 {
			if err := do(s.all[at], places); err != nil {
				return err
			}
		}
	}
	return nil
}

func cellsOf(ops []replicator.Op) []replicator.Cell {
	cells := make([]replicator.Cell, len(ops))
	for i := range ops {
		cells[i] = ops[i].Cell
	}
	return cells
}

func pick[T any](all []T, places []int) []T {
	some := make([]T, len(places))
	for i, place := range places {
		some[i] = all[place]
	}
	return some
}

// Apply implements replicator.Target.
func (s *partitioned) Apply(ctx context.Context, ops []replicator.Op) (all replicator.Applied, err error) {
	err = s.each(ctx, cellsOf(ops), func(t replicator.Target, places []int) error {
		applied, err := t.Apply(ctx, pick(ops, places))
		for _, i := range applied.Stale {
			all.Stale = append(all.Stale, places[i])
		}
		for _, r := range applied.Rejected {
			r.Op = places[r.Op]
			all.Rejected = append(all.Rejected, r)
		}
		for _, d := range applied.Dead {
			d.Op = places[d.Op]
			all.Dead = append(all.Dead, d)
		}
		return err
	})
	return all, err
}

// Versions implements replicator.Target.
func (s *partitioned) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions := make([]replicator.Span, len(cells))
	err := s.each(ctx, cells, func(t replicator.Target, places []int) error {
		some, err := t.Versions(ctx, pick(cells, places))
		for i, v := range some {
			versions[places[i]] = v
		}
		return err
	})
	return versions, err
}

// Compare implements replicator.Target.
func (s *partitioned) Compare(ctx context.Context, ops []replicator.Op) (all []replicator.Difference, err error) {
	err = s.each(ctx, cellsOf(ops), func(t replicator.Target, places []int) error {
		some, err := t.Compare(ctx, pick(ops, places))
		for _, d := range some {
			d.Op = places[d.Op]
			all = append(all, d)
		}
		return err
	})
	return all, err
}

// Mark implements replicator.Target: what is only looked at is not marked.
func (s *partitioned) Mark(context.Context, replicator.Standing) error {
	return errors.New("the partitions of a topic are not marked together")
}

// partitionsCursor is where a walk through all targets goes on.
type partitionsCursor struct {
	Target int
	After  string
}

type walk = func(t replicator.Target, after string) ([]replicator.Cell, string, error)

func (s *partitioned) walk(after string, page walk) ([]replicator.Cell, string, error) {
	var at partitionsCursor
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil || at.Target >= len(s.all) {
			return nil, "", fmt.Errorf("%q is no place in a walk through partitions", after)
		}
	}
	cells, next, err := page(s.all[at.Target], at.After)
	if err != nil {
		return nil, "", err
	}
	if at.After = next; next == "" {
		at.Target++
	}
	if at.Target == len(s.all) {
		return cells, "", nil
	}
	text, err := json.Marshal(at)
	return cells, string(text), err
}

// Outdated implements replicator.Target.
func (s *partitioned) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Outdated(ctx, before, after, limit)
	})
}

// Dead implements replicator.Target.
func (s *partitioned) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Dead(ctx, view, after, limit)
	})
}

// Held implements replicator.Target.
func (s *partitioned) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Held(ctx, view, after, limit)
	})
}

// openTopics opens the view in its sink as all partitions of the topics feed it that hold a shard of the origin.
func (o *inspection) openTopics(ctx context.Context, in *inspector, shard config.Shard, sink replicator.Sink,
	views []*replicator.View) (known []replicator.Position, err error) {
	if in.cluster == nil {
		if in.cluster, err = in.Setup.cluster(); err != nil {
			return nil, err
		}
	}
	var topics []topicTargets
	var all []replicator.Target
	var names []string
	for _, topic := range in.Config.Source.Kafka.Topics {
		publishers, err := in.cluster.Publishers(ctx, topic)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(publishers, func(p kafka.Publisher) bool { return p.Source == shard.Name })
		if i < 0 {
			continue
		}
		topics = append(topics, topicTargets{publishers[i], len(all)})
		for n := range int32(publishers[i].Partitions) {
			from := in.cluster.Source(kafka.Config{Topic: topic, Partition: n})
			marks, err := sink.Marks(ctx, from.Name())
			if err != nil {
				return nil, err
			}
			var target replicator.Target
			if o.view, target, err = look(ctx, from, sink, views, marks); err != nil {
				return nil, fmt.Errorf("partition %s: %w", from.Name(), err)
			}
			all, names = append(all, target), append(names, from.Name())
			for _, p := range positionsOf(marks) {
				if at := kafka.Origin(p, shard.Name); !at.IsZero() {
					known = append(known, at)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("view %s: %w: no publisher of source %q has marked a topic of [source] topics",
			views[0].Name, verify.ErrUnverifiable, shard.Name)
	}
	o.partitions = &partitioned{topics, all, names}
	o.target = newPartitioned(o.partitions)
	return known, nil
}
