package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
)

// letters records dead letters (changes that could not be applied) in the store, and clears them once a newer value is
// applied. It has no state, so all workers use it at once.
type letters struct {
	*group
	reader replicator.Reader
	target replicator.Target
	intake *intake
}

// update records dead letters of values that could not be computed or written, and clears letters that newer values
// made obsolete. Both happen before the batch counts as applied, so the checkpoint never passes a change that is
// neither in the sink nor a dead letter.
func (l *letters) update(ctx context.Context, b *opBatch, applied replicator.Applied) error {
	ops, rows := b.ops, b.rows
	if err := l.raiseElsewhere(ctx, ops, applied); err != nil {
		return err
	}
	type place struct{ op, view int }
	bad, dead := map[place]bool{}, map[place]bool{}
	var buried []replicator.DeadLetter
	stale := map[int]bool{}
	for _, i := range applied.Stale {
		stale[i] = true
	}
	for _, d := range applied.Dead {
		dead[place{d.Op, d.View}] = true
	}
	var failed error
	bury := func(i, view int, reason string, err error) {
		bad[place{i, view}] = true
		letter := replicator.NewDeadLetter(l.views[view].Name, ops[i], rows[i], err, l.reader.Locate)
		letter.Source = l.cfg.Source.Name()
		buried = append(buried, letter)
		failed = errors.Join(failed, l.tell(ctx, l.views[view], reason, letter, ops[i].AsOf != 0))
	}
	for i, op := range ops {
		for _, v := range op.Values {
			// Another replicator's later re-read found a dead letter, too. Its store has that letter, this one may not.
			late := op.AsOf != 0 && dead[place{i, v.View}]
			if v.Err != nil && (!stale[i] || late) {
				reason := "evaluate"
				if rows[i] != nil && rows[i].Err != nil {
					reason = "row"
				}
				bury(i, v.View, reason, v.Err)
			}
		}
	}
	for _, r := range applied.Rejected {
		if !bad[place{r.Op, r.View}] {
			bury(r.Op, r.View, "rejected", r.Err)
		}
	}
	if failed != nil {
		return failed
	}
	if len(buried) > 0 {
		if err := l.cfg.Store.Bury(ctx, buried); err != nil {
			return fmt.Errorf("saving %d dead letters: %w", len(buried), err)
		}
	}
	if err := l.applyClaimed(ctx, ops, applied); err != nil {
		return err
	}
	good := b.lists(len(l.views))
	for i, op := range ops {
		for _, v := range op.Values { // also of ops that were stale: the sink then holds a newer value
			if !bad[place{i, v.View}] && !dead[place{i, v.View}] {
				if good[v.View] == nil {
					good[v.View] = make([]replicator.Cell, 0, len(ops)-i)
				}
				good[v.View] = append(good[v.View], op.Cell)
			}
		}
	}
	for i, v := range l.views {
		if len(good[i]) == 0 {
			continue
		}
		if err := l.cfg.Store.Raise(ctx, v.Name, l.cfg.Source.Name(), good[i]); err != nil {
			return fmt.Errorf("removing obsolete dead letters of view %s: %w", v.Name, err)
		}
	}
	return nil
}

// tell counts a dead letter and logs it, unless one of the same kind was logged lately. `again` says that the cell was
// re-read. If the store then has the letter already, it was counted before, and tell does nothing.
func (l *letters) tell(
	ctx context.Context, v *replicator.View, reason string, letter replicator.DeadLetter, again bool,
) error {
	if again {
		known, err := l.cfg.Store.Known(ctx, letter.View, letter.Source, letter.Cell)
		if err != nil || known != 0 {
			return err
		}
	}
	l.cfg.Observer.DeadLetter(v.ShownAs(), reason)
	l.news.add(v.ShownAs(), reason, letter)
	return nil
}

// raiseElsewhere clears obsolete dead letters of other shards: this shard's row of the key is gone, and the views show
// the other shard's row. It reads the letters' numbers first, and then applies the ops again to see whether the views
// still show that row. So letters that were recorded after the numbers were read stay.
func (l *letters) raiseElsewhere(ctx context.Context, ops []replicator.Op, applied replicator.Applied) error {
	for shown := applied.Elsewhere; ; {
		numbers := map[replicator.Elsewhere]int64{}
		var again []replicator.Op
		for _, e := range shown {
			number, err := l.cfg.Store.Known(ctx, l.views[e.View].Name, e.Source, ops[e.Op].Cell)
			if err != nil {
				return err
			}
			if number == 0 {
				continue
			}
			at := slices.IndexFunc(again, func(op replicator.Op) bool { return op.Cell == ops[e.Op].Cell })
			if at < 0 {
				at, again = len(again), append(again, ops[e.Op])
			}
			e.Op = at
			numbers[e] = number
		}
		if len(again) == 0 {
			return nil
		}
		outcome, err := l.applyAgain(ctx, again)
		if err != nil {
			return err
		}
		for _, e := range outcome.Elsewhere {
			name, cell := l.views[e.View].Name, again[e.Op].Cell
			if err := l.cfg.Store.RaiseKnown(ctx, name, e.Source, cell, numbers[e]); err != nil {
				return fmt.Errorf("removing an obsolete dead letter of view %s: %w", name, err)
			}
		}
		ops, shown = again, outcome.Elsewhere
	}
}

func (l *letters) applyAgain(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	outcome, err := l.target.Apply(ctx, ops)
	if err == nil && len(outcome.Unknown) > 0 { // the sink forgot deletions, so it can't tell whether ops are stale
		err = errBehindHorizon
	}
	return outcome, err
}

// applyClaimed applies values again that the sink rejected because another shard has a row of the same key. If that row
// was deleted before the value's dead letter was saved, the delete did not clear the letter. The second try does.
func (l *letters) applyClaimed(ctx context.Context, ops []replicator.Op, applied replicator.Applied) error {
	var again []replicator.Op
	var last int                         // the last op in `again` comes from ops[last]
	for _, r := range applied.Rejected { // Rejected is in the order of the ops
		if !errors.Is(r.Err, replicator.ErrClaimed) {
			continue
		}
		if len(again) == 0 || last != r.Op {
			op := ops[r.Op]
			op.Values, last = nil, r.Op
			again = append(again, op)
		}
		op := &again[len(again)-1]
		for _, v := range ops[r.Op].Values {
			if v.View == r.View {
				op.Values = append(op.Values, v)
			}
		}
	}
	if len(again) == 0 {
		return nil
	}
	outcome, err := l.applyAgain(ctx, again)
	if err != nil {
		return err
	}
	left := map[replicator.ValueAt]bool{}
	for _, r := range outcome.Rejected {
		left[replicator.ValueAt{Op: r.Op, View: r.View}] = true
	}
	for _, d := range outcome.Dead {
		left[d] = true
	}
	for i, op := range again {
		for _, v := range op.Values {
			if left[replicator.ValueAt{Op: i, View: v.View}] {
				continue
			}
			if err := l.raise(ctx, v.View, l.cfg.Source.Name(), op.Cell); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *letters) raise(ctx context.Context, view int, source string, c replicator.Cell) error {
	name := l.views[view].Name
	if err := l.cfg.Store.Raise(ctx, name, source, []replicator.Cell{c}); err != nil {
		return fmt.Errorf("removing an obsolete dead letter of view %s: %w", name, err)
	}
	return nil
}
