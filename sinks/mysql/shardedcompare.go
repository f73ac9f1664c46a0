package mysql

import (
	"context"

	"replicator"
)

// Compare implements replicator.Target. Each shard is compared with its part, so that a copy of an entry where it does
// not belong is found, too.
func (t *shardedTarget) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	expected := map[belongs][]bool{}
	portions := make([]portion, len(t.shards))
	for i, op := range ops {
		for shard, shares := range t.split(&op, true) {
			op.Values = nil
			for _, p := range shares {
				at := t.belongs(&op, t.global[shard][p.value.View])
				if expected[at] == nil {
					expected[at] = make([]bool, len(t.shards))
				}
				expected[at][shard] = expected[at][shard] || len(p.value.Entries) > 0
				op.Values = append(op.Values, p.value)
			}
			if len(shares) > 0 {
				portions[shard].add(i, op)
			}
		}
	}
	found := make([][]replicator.Difference, len(t.shards))
	err := t.each(func(shard int, target *Target) (err error) {
		found[shard], err = target.Compare(ctx, portions[shard].ops)
		return err
	})
	if err != nil {
		return nil, err
	}
	var differences []replicator.Difference
	at := map[valueAt]int{}
	wrong := map[valueAt][]bool{}
	for shard, some := range found {
		for _, d := range some {
			d.Op, d.View = portions[shard].of[d.Op], t.global[shard][d.View]
			p := valueAt{d.Op, d.View}
			if wrong[p] == nil {
				wrong[p], at[p] = make([]bool, len(t.shards)), len(differences)
				differences = append(differences, d)
			} else if first := &differences[at[p]]; first.Kind == replicator.Dead {
				first.Kind = d.Kind // also where another shard shows what it should not
			} else if d.Kind != replicator.Dead && first.Kind != d.Kind {
				first.Kind = replicator.Stale
			}
			if first := &differences[at[p]]; len(first.Shards) > 0 {
				first.Held = append(first.Held, d.Held...)
			}
			wrong[p][shard] = true
			differences[at[p]].Shards = append(differences[at[p]].Shards, t.sink.names[shard])
		}
	}
	for i := range differences {
		d := &differences[i]
		if d.Kind == replicator.Dead {
			continue // what is expected is of the entity's other cells
		}
		for shard, some := range expected[t.belongs(&ops[d.Op], d.View)] {
			if some && !wrong[valueAt{d.Op, d.View}][shard] { // it is right there: the view holds something of it
				d.Kind = replicator.Stale
			}
		}
	}
	return differences, nil
}

// belongs names what is compared as a whole: a cell's contribution to a view or, where several cells make one, an
// entity's.
type belongs struct {
	view int
	cell replicator.Cell
}

func (t *shardedTarget) belongs(op *replicator.Op, view int) belongs {
	if t.shards[0].kept[view].shared {
		return belongs{view, replicator.Cell{Key: op.Cell.Key}}
	}
	return belongs{view, op.Cell}
}
