package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/changelog"
	"replicator/kafka"
	"replicator/verify"
)

// partitioned makes one target of all partitions of a topic, for inspection and repair. It implements replicator.Target
// and replicator.Lister. Each cell goes to its own partition's target, which stores the cell's state.
type partitioned struct {
	cluster   *kafka.Cluster
	topic     string
	publisher kafka.Publisher
	all       []replicator.Target // by partition number
}

// newPartitioned returns s as a target. If the sink can find orphans (entries that came from no cell), only the first
// partition's target looks for them, because each target finds the orphans of all partitions.
func newPartitioned(s *partitioned) replicator.Target {
	if tidier, ok := s.all[0].(replicator.Tidier); ok {
		return struct {
			*partitioned
			replicator.Tidier
		}{s, tidier}
	}
	return s
}

func (s *partitioned) source(c replicator.Cell) string {
	return kafka.Partition{Topic: s.topic, Number: int32(s.publisher.PartitionOf(c))}.String()
}

// unkept returns an error if a member of the consumer group reads the partition named source.
func (s *partitioned) unkept(ctx context.Context, group, source string) error {
	status, err := s.cluster.Status(ctx, group, s.topic)
	if err != nil {
		return err
	}
	for _, p := range status.Partitions {
		if p.Partition.String() == source && p.Member != "" {
			return fmt.Errorf("partition %s is kept by member %s. Repair the view at that member", source, p.Member)
		}
	}
	return nil
}

// each calls do once for each target that has some of the cells, with the indexes of these cells.
func (s *partitioned) each(cells []replicator.Cell, do func(t replicator.Target, places []int) error) error {
	by := make([][]int, len(s.all))
	for i, c := range cells {
		at := s.publisher.PartitionOf(c)
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

func (s *partitioned) Apply(ctx context.Context, ops []replicator.Op) (all replicator.Applied, err error) {
	err = s.each(cellsOf(ops), func(t replicator.Target, places []int) error {
		applied, err := t.Apply(ctx, pick(ops, places))
		all.Add(applied, places)
		return err
	})
	return all, err
}

func (s *partitioned) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions := make([]replicator.Span, len(cells))
	err := s.each(cells, func(t replicator.Target, places []int) error {
		some, err := t.Versions(ctx, pick(cells, places))
		for i, v := range some {
			versions[places[i]] = v
		}
		return err
	})
	return versions, err
}

func (s *partitioned) Compare(ctx context.Context, ops []replicator.Op) (all []replicator.Difference, err error) {
	err = s.each(cellsOf(ops), func(t replicator.Target, places []int) error {
		some, err := t.Compare(ctx, pick(ops, places))
		for _, d := range some {
			d.Op = places[d.Op]
			all = append(all, d)
		}
		return err
	})
	return all, err
}

// Mark always fails, because an inspection must not change a view's saved position.
func (s *partitioned) Mark(context.Context, replicator.Standing) error {
	return errors.New("marks can't be written here: the partitions of the topic are opened together only for " +
		"inspection and repair")
}

// partitionsCursor is the position of an iteration over the cells of all partitions' targets.
type partitionsCursor struct {
	Target int
	After  string
}

type walk = func(t replicator.Target, after string) ([]replicator.Cell, string, error)

func (s *partitioned) walk(after string, page walk) ([]replicator.Cell, string, error) {
	var at partitionsCursor
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil || at.Target >= len(s.all) {
			return nil, "", fmt.Errorf("%q is not a cursor over the cells of all partitions", after)
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

func (s *partitioned) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Outdated(ctx, before, after, limit)
	})
}

func (s *partitioned) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Dead(ctx, view, after, limit)
	})
}

func (s *partitioned) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return s.walk(after, func(t replicator.Target, after string) ([]replicator.Cell, string, error) {
		return t.Held(ctx, view, after, limit)
	})
}

func (s *partitioned) ListedBy(view int) []string {
	if l, ok := s.all[0].(replicator.Lister); ok {
		return l.ListedBy(view)
	}
	return nil
}

func (s *partitioned) List(
	ctx context.Context, view int, values []string, limit int,
) (found replicator.Listing, err error) {
	for _, t := range s.all {
		some, err := t.(replicator.Lister).List(ctx, view, values, limit)
		if err != nil {
			return found, err
		}
		found.Join(some, limit)
	}
	return found, nil
}

// topicOf returns the topic that has the cells of an origin (a server, or a shard), and the topic's publisher. If no
// topic or several topics have that origin, the error wraps verify.ErrUnverifiable, because a cell could then be
// compared with another origin's cell.
func topicOf(ctx context.Context, cluster *kafka.Cluster, topics []string, origin string) (
	topic string, publisher kafka.Publisher, err error,
) {
	var all, others []string
	for _, name := range topics {
		p, err := cluster.Publisher(ctx, name)
		switch {
		case errors.Is(err, kafka.ErrUnmarked):
		case err != nil:
			return "", publisher, err
		case p.Source == origin:
			all, publisher = append(all, name), p
		default:
			others = append(others, fmt.Sprintf("topic %s has cells of %s", name, changelog.Origin(p.Source)))
		}
	}
	switch {
	case len(all) == 1:
		return all[0], publisher, nil
	case len(all) > 1:
		return "", publisher, fmt.Errorf("%w: topics %s all have cells of %s, so nothing says which one has a given "+
			"cell. In each publisher's configuration, name its source in [source.shards]. Use the same names in "+
			"[source.shards] here", verify.ErrUnverifiable, strings.Join(all, " and "), changelog.Origin(origin))
	case len(others) > 0:
		return "", publisher, fmt.Errorf("%w: none of the topics in [source] has cells of %s: %s. In this file, set "+
			"[source.shards] with the same names as in the publishers' files, or [source] dsn if those have no shards",
			verify.ErrUnverifiable, changelog.Origin(origin), strings.Join(others, ", "))
	}
	return "", publisher, fmt.Errorf("%w: %w", verify.ErrUnverifiable, kafka.ErrUnmarked)
}

// openTopic opens the view in its sink, for all partitions of one topic: the one that was published from the shard. The
// inspection ignores what other topics wrote to the view.
func (o *inspection) openTopic(ctx context.Context, in *inspector, shard config.Shard, sink replicator.Sink,
	views []*replicator.View) (err error) {
	if in.cluster == nil {
		if in.cluster, err = in.Setup.cluster(); err != nil {
			return err
		}
	}
	o.partitions = &partitioned{cluster: in.cluster}
	s := o.partitions
	if s.topic, s.publisher, err = topicOf(ctx, in.cluster, in.Config.Source.Kafka.Topics, shard.Name); err != nil {
		return fmt.Errorf("view %s: %w", views[0].Name, err)
	}
	for n := range int32(s.publisher.Partitions) {
		from := in.cluster.Source(kafka.Config{Topic: s.topic, Partition: n})
		marks, err := sink.Marks(ctx, from.Name())
		if err != nil {
			return err
		}
		var target replicator.Target
		if o.view, target, err = openToInspect(ctx, from, sink, views, marks); err != nil {
			return fmt.Errorf("partition %s: %w", from.Name(), err)
		}
		s.all = append(s.all, target)
		o.know(marks, kafka.Origin)
	}
	o.target = newPartitioned(o.partitions)
	return nil
}
