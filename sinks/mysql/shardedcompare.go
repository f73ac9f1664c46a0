package mysql

import (
	"context"

	"replicator"
	"replicator/sinks/judge"
)

// Compare implements replicator.Target. It compares each shard with the entries that belong there, so it also finds an
// entry that is in a wrong shard.
func (t *shardedTarget) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	expected := map[unit][]bool{}
	parts := t.parts()
	for i, op := range ops {
		for shard, shares := range t.split(&op, true) {
			op.Values = nil
			for _, p := range shares {
				at := t.unit(&op, t.global[shard][p.value.View])
				if expected[at] == nil {
					expected[at] = make([]bool, len(t.shards))
				}
				expected[at][shard] = expected[at][shard] || p.turn != taking && len(p.value.Entries) > 0
				op.Values = append(op.Values, p.value)
			}
			if len(shares) > 0 {
				parts[shard].Add(i, op)
			}
		}
	}
	found := make([][]replicator.Difference, len(t.shards))
	err := t.each(func(shard int, target *Target) (err error) {
		found[shard], err = target.Compare(ctx, parts[shard].Ops)
		return err
	})
	if err != nil {
		return nil, err
	}
	var differences []replicator.Difference
	kinds := map[replicator.ValueAt][]replicator.DifferenceKind{} // for each value: what differs in each shard
	indexOf := map[replicator.ValueAt]int{}                       // for each value: its index in differences
	for shard, some := range found {
		for _, d := range some {
			at := parts[shard].At(d.Op, d.View)
			if kinds[at] == nil {
				kinds[at], indexOf[at] = make([]replicator.DifferenceKind, len(t.shards)), len(differences)
				differences = append(differences, replicator.Difference{Op: at.Op, View: at.View, Err: d.Err})
			}
			kinds[at][shard] = d.Kind
			whole := &differences[indexOf[at]]
			whole.Held, whole.Shards = append(whole.Held, d.Held...), append(whole.Shards, t.sink.names[shard])
			whole.States = append(whole.States, d.States...)
		}
	}
	for at, n := range indexOf {
		differences[n].Kind = wholeKind(kinds[at], expected[t.unit(&ops[at.Op], at.View)])
	}
	return differences, nil
}

// wholeKind makes one kind of difference of a value from the kinds that its shards report. A shard's kind is "" if the
// shard holds what is expected of it.
func wholeKind(kinds []replicator.DifferenceKind, expected []bool) replicator.DifferenceKind {
	dead, want, held := true, false, false
	for shard, kind := range kinds {
		switch kind {
		case "":
			want, held = want || expected[shard], held || expected[shard]
			continue
		case replicator.Dead:
			continue
		case replicator.Missing:
			want = true
		case replicator.Extra:
			held = true
		case replicator.Stale:
			want, held = true, true
		}
		dead = false
	}
	if dead { // the entries that shards correctly hold come from the entity's other cells
		return replicator.Dead
	}
	return judge.Difference(want, held, false)
}

// unit identifies what is compared as a whole: a cell's contribution to a view or, if several cells are merged, the
// contribution of all cells of an entity.
type unit struct {
	view int
	cell replicator.Cell
}

func (t *shardedTarget) unit(op *replicator.Op, view int) unit {
	if t.shards[0].kept[view].shared {
		return unit{view, replicator.Cell{Key: op.Cell.Key}}
	}
	return unit{view, op.Cell}
}
