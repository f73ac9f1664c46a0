package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

var _ replicator.Parted = (*Sharded)(nil)

// ForgetLost implements replicator.Parted. A view that lives in every shard is forgotten only in the shards that lost
// it. The other shards still show it correctly, and forgetting would empty a counter's table there.
func (s *Sharded) ForgetLost(ctx context.Context, v *replicator.View, sources []string) error {
	if !s.spread[v.Name] {
		return s.Forget(ctx, v.Name)
	}
	// held says, by shard and source, whether the shard has filled the view with v's definition. A source is missing if
	// the shard has not registered the view for it.
	held := make([]map[string]bool, len(s.shards))
	for shard := range held {
		held[shard] = map[string]bool{}
	}
	for _, source := range sources {
		by, err := s.marksOf(ctx, source)
		if err != nil {
			return err
		}
		for shard, marks := range by {
			for _, m := range marks {
				if m.View == v.Name {
					held[shard][source] = holds(m, v.Fingerprint)
				}
			}
		}
	}
	return s.each(func(shard int) error {
		for _, source := range sources {
			here, known := held[shard][source]
			elsewhere := slices.ContainsFunc(held, func(by map[string]bool) bool { return by[source] })
			if (known || elsewhere) && !here {
				return s.shards[shard].Forget(ctx, v.Name)
			}
		}
		return nil
	})
}

// holds reports whether a mark shows that the sink holds the mark's view with the given definition.
func holds(m replicator.Mark, fingerprint string) bool {
	return !m.Position.IsZero() && replicator.SameDefinition(m.Fingerprint, fingerprint)
}

// Lacking implements replicator.Parted. A view without a ShardOn must be in the first shard. If it is in another shard,
// the shards were reordered.
func (s *Sharded) Lacking(ctx context.Context, source string) (map[string]string, error) {
	by, err := s.marksOf(ctx, source)
	if err != nil {
		return nil, err
	}
	lacking := map[string]string{}
	for view, fingerprint := range s.definitions {
		var with, without []string
		for shard, marks := range by {
			held := func(m replicator.Mark) bool { return m.View == view && holds(m, fingerprint) }
			if slices.ContainsFunc(marks, held) {
				with = append(with, s.names[shard])
			} else {
				without = append(without, s.names[shard])
			}
		}
		switch {
		case !s.spread[view] && (len(without) == 0 || without[0] != s.names[0]), len(without) == 0:
		case !s.spread[view] && len(with) > 0:
			lacking[view] = fmt.Sprintf("shard %s, which is now the first (the view is in shard %s: if the shards "+
				"were reordered, restore their order in [sinks.%s.shards])", s.names[0], with[0], s.name)
		case !s.spread[view]:
			lacking[view] = "shard " + s.names[0]
		case len(with) > 0 && len(without) == 1:
			lacking[view] = "shard " + without[0]
		case len(with) > 0:
			lacking[view] = "shards " + strings.Join(without, ", ")
		}
	}
	return lacking, nil
}
