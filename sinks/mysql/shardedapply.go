package mysql

import (
	"cmp"
	"context"
	"errors"

	"replicator"
	"replicator/sinks/judge"
)

// Apply implements replicator.Target. It puts entries into their shards before it removes any from other shards, so an
// entry that moves is always in at least one shard. After a crash in between, repeating the batch completes it.
func (t *shardedTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	put, take := t.rounds(ops)
	batch := judge.NewBatch(ops)
	rejected := map[replicator.ValueAt][]error{} // for each rejected value of the batch: its error in each shard
	for _, round := range [][]judge.Part{put, take} {
		outcomes, err := t.applyRound(ctx, round)
		if err != nil {
			return replicator.Applied{}, err
		}
		for shard, outcome := range outcomes {
			batch.Include(&round[shard], outcome)
			for _, r := range outcome.Rejected {
				at := round[shard].At(r.Op, r.View)
				// Not a failure: the view shows another source's row, and the shard's state keeps this one.
				if errors.Is(r.Err, replicator.ErrClaimed) {
					continue
				}
				if rejected[at] == nil {
					rejected[at] = make([]error, len(t.shards))
				}
				rejected[at][shard] = r.Err
			}
		}
	}
	if err := t.withdraw(ctx, put, rejected); err != nil {
		return replicator.Applied{}, err
	}
	return batch.Applied(), nil
}

// rounds splits a batch by shard and by round. The first round puts entries, the second only removes them. If a shard
// may get a share in either round, it gets the share together with its other shares of the op, so that one transaction
// applies them all.
func (t *shardedTarget) rounds(ops []replicator.Op) (put, take []judge.Part) {
	put, take = t.parts(), t.parts()
	for i, op := range ops {
		for shard, shares := range t.split(&op, op.AsOf != 0 && op.Rewrite) {
			var values [3][]replicator.Value // indexed by turn
			for _, p := range shares {
				values[p.turn] = append(values[p.turn], p.value)
			}
			with := putting
			if len(values[putting]) == 0 && len(values[taking]) > 0 {
				with = taking
			}
			values[with] = append(values[with], values[either]...)
			if op.Values = values[putting]; len(op.Values) > 0 {
				put[shard].Add(i, op)
			}
			if op.Values = values[taking]; len(op.Values) > 0 {
				take[shard].Add(i, op)
			}
		}
	}
	return put, take
}

// share is the part of a value that one shard gets. value.View is the view's index in that shard's target.
type share struct {
	value replicator.Value
	turn  turn
}

// turn says when a shard gets its share of a value. Apply first puts entries into their shards (the first round), and
// then removes entries from other shards (the second round).
type turn int

const (
	putting turn = iota // in the first round: the shard gets entries
	taking              // in the second round: the shard gets no entries, and loses those that it has
	either              // in either round: no other shard can hold the entries
)

// split divides an op's values among the shards. If a column of the key decides the shard, only the key's shard gets
// the value. With `everywhere` set, the others get empty values, which remove entries that are in a wrong shard.
func (t *shardedTarget) split(op *replicator.Op, everywhere bool) [][]share {
	shares := make([][]share, len(t.shards))
	add := func(shard int, v replicator.Value, entries []replicator.Entry, turn turn) {
		v.View, v.Entries = t.local[shard][v.View], entries
		shares[shard] = append(shares[shard], share{v, turn})
	}
	key, _ := op.Cell.Key.Values() // every shard rejects a key that can't be decoded
	for _, v := range op.Values {
		switch k := t.shards[0].kept[v.View]; {
		case k.shardOn == nil:
			add(0, v, v.Entries, either)
		case k.shardOn.inKey && !everywhere:
			add(k.home(key, len(t.shards)), v, v.Entries, either)
		case k.shardOn.inKey:
			home := k.home(key, len(t.shards))
			for shard := range t.shards {
				if shard == home {
					add(shard, v, v.Entries, putting)
				} else {
					add(shard, v, nil, taking)
				}
			}
		default:
			for shard, entries := range k.homes(key, op.Version, v, len(t.shards)) {
				if len(entries) > 0 {
					add(shard, v, entries, putting)
				} else {
					add(shard, v, nil, taking)
				}
			}
		}
	}
	return shares
}

func (t *shardedTarget) parts() []judge.Part {
	parts := make([]judge.Part, len(t.shards))
	for shard := range parts {
		parts[shard] = judge.NewPart(t.global[shard])
	}
	return parts
}

func (t *shardedTarget) applyRound(ctx context.Context, round []judge.Part) ([]replicator.Applied, error) {
	outcomes := make([]replicator.Applied, len(round))
	err := t.each(func(shard int, target *Target) (err error) {
		if len(round[shard].Ops) > 0 {
			outcomes[shard], err = target.Apply(ctx, round[shard].Ops)
		}
		return err
	})
	return outcomes, err
}

// withdraw takes back values that one shard rejected: it removes their entries from the shards that applied them. A
// value that can't be written as a whole contributes nothing.
func (t *shardedTarget) withdraw(ctx context.Context, put []judge.Part, rejected map[replicator.ValueAt][]error) error {
	back := t.parts()
	for shard := range put {
		for i, op := range put[shard].Ops {
			var values []replicator.Value
			var at replicator.ValueAt
			for _, v := range op.Values {
				at = put[shard].At(i, v.View)
				if by := rejected[at]; by != nil && by[shard] == nil {
					values = append(values, replicator.Value{View: v.View, Err: cmp.Or(by...)})
				}
			}
			if len(values) > 0 {
				op.Values, op.Rewrite = values, true
				back[shard].Add(at.Op, op)
			}
		}
	}
	// Ignore what the shards report. They can't reject a value without entries. If a withdrawal is stale, a newer
	// version has replaced the value.
	_, err := t.applyRound(ctx, back)
	return err
}
