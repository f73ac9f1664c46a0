package mysql

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"replicator"
)

// portion is what of a batch goes to one shard.
type portion struct {
	ops []replicator.Op
	of  []int // for each, its place in the batch
}

func (p *portion) add(place int, op replicator.Op) {
	p.ops, p.of = append(p.ops, op), append(p.of, place)
}

// valueAt is a value of a batch: its op's place there, and its view.
type valueAt struct{ op, view int }

// outcome is what became of a batch, in all shards together.
type outcome struct {
	fresh    []bool                          // by op: some shard did not find it stale
	rejected map[valueAt]replicator.Rejected // the first rejection of each value
	by       map[valueAt][]bool              // the shards that rejected it
	dead     map[valueAt]bool                // stale values of cells that are dead letters somewhere
}

func newOutcome(ops int) *outcome {
	return &outcome{fresh: make([]bool, ops), rejected: map[valueAt]replicator.Rejected{}, by: map[valueAt][]bool{}, dead: map[valueAt]bool{}}
}

// applied is the outcome as Apply returns it.
func (o *outcome) applied(ops []replicator.Op) replicator.Applied {
	var a replicator.Applied
	for i := range ops {
		if !o.fresh[i] && len(ops[i].Values) > 0 {
			a.Stale = append(a.Stale, i)
		}
	}
	for at := range o.dead {
		if !o.fresh[at.op] {
			a.Dead = append(a.Dead, replicator.ValueAt{Op: at.op, View: at.view})
		}
	}
	a.Rejected = slices.SortedFunc(maps.Values(o.rejected), func(a, b replicator.Rejected) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.View, b.View))
	})
	return a
}

// Apply implements replicator.Target. In the first round every shard gets what it is to hold, in the second what it
// holds no more is taken away: what moves is found in both places for a moment, but never in none. In between, and
// after a crash, shards stand at different versions of a cell; each judges by its own states, so that repeating the
// batch completes it.
func (t *shardedTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	put, take := t.rounds(ops)
	o := newOutcome(len(ops))
	for _, round := range [][]portion{put, take} {
		if err := t.applyRound(ctx, round, o); err != nil {
			return replicator.Applied{}, err
		}
	}
	if err := t.withdraw(ctx, ops, put, o); err != nil {
		return replicator.Applied{}, err
	}
	return o.applied(ops), nil
}

// rounds splits a batch by shard, into what is put somewhere and what is only taken away. A share that may go with the
// one or the other goes with the other shares of its cell there, so that one transaction changes them together where
// that can be.
func (t *shardedTarget) rounds(ops []replicator.Op) (put, take []portion) {
	put, take = make([]portion, len(t.shards)), make([]portion, len(t.shards))
	for i, op := range ops {
		for shard, shares := range t.split(&op, op.AsOf != 0 && op.Rewrite) {
			var values [3][]replicator.Value // by turn
			for _, p := range shares {
				values[p.turn] = append(values[p.turn], p.value)
			}
			with := putting
			if len(values[putting]) == 0 && len(values[taking]) > 0 {
				with = taking
			}
			values[with] = append(values[with], values[either]...)
			if op.Values = values[putting]; len(op.Values) > 0 {
				put[shard].add(i, op)
			}
			if op.Values = values[taking]; len(op.Values) > 0 {
				take[shard].add(i, op)
			}
		}
	}
	return put, take
}

// share is what of a value one shard gets, with the view's own place there.
type share struct {
	value replicator.Value
	turn  turn
}

// turn says when a share is applied.
type turn int

const (
	putting turn = iota // in the first round: the shard is to hold something
	taking              // in the second: another shard may be to hold it instead
	either              // nothing of it can be in another shard
)

// split says what each shard gets of an op. Where a key leads to one shard the others get nothing; unless everywhere is
// set, for whoever looks for what does not belong there.
func (t *shardedTarget) split(op *replicator.Op, everywhere bool) [][]share {
	shares := make([][]share, len(t.shards))
	add := func(shard int, v replicator.Value, entries []replicator.Entry, turn turn) {
		v.View, v.Entries = t.local[shard][v.View], entries
		shares[shard] = append(shares[shard], share{v, turn})
	}
	key, _ := op.Cell.Key.Values() // without its parts it can't be converted, which every shard finds out
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

// applyRound applies portions, in all shards at once, and notes what came of it.
func (t *shardedTarget) applyRound(ctx context.Context, round []portion, o *outcome) error {
	results := make([]replicator.Applied, len(round))
	err := t.each(func(shard int, target *Target) (err error) {
		if len(round[shard].ops) > 0 {
			results[shard], err = target.Apply(ctx, round[shard].ops)
		}
		return err
	})
	if err != nil {
		return err
	}
	for shard, applied := range results {
		stale := make([]bool, len(round[shard].of))
		for _, i := range applied.Stale {
			stale[i] = true
		}
		for i, of := range round[shard].of {
			o.fresh[of] = o.fresh[of] || !stale[i]
		}
		for _, d := range applied.Dead {
			o.dead[valueAt{round[shard].of[d.Op], t.global[shard][d.View]}] = true
		}
		for _, r := range applied.Rejected {
			at := valueAt{round[shard].of[r.Op], t.global[shard][r.View]}
			if o.by[at] == nil {
				o.by[at] = make([]bool, len(t.shards))
				o.rejected[at] = replicator.Rejected{Op: at.op, View: at.view, Err: r.Err}
			}
			o.by[at][shard] = true
		}
	}
	return nil
}

// withdraw takes a value that one shard rejected back from those that took their parts of it: what can't be written
// whole contributes nothing.
func (t *shardedTarget) withdraw(ctx context.Context, ops []replicator.Op, put []portion, o *outcome) error {
	back := make([]portion, len(t.shards))
	for shard := range put {
		for i, op := range put[shard].ops {
			var values []replicator.Value
			for _, v := range op.Values {
				at := valueAt{put[shard].of[i], t.global[shard][v.View]}
				if o.by[at] != nil && !o.by[at][shard] {
					values = append(values, replicator.Value{View: v.View, Err: o.rejected[at].Err})
				}
			}
			if len(values) > 0 {
				op.Values, op.Rewrite = values, true
				back[shard].add(put[shard].of[i], op)
			}
		}
	}
	// Nothing can be rejected of it, and what is stale by now a newer version has replaced.
	return t.applyRound(ctx, back, newOutcome(len(ops)))
}
