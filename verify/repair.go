package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"replicator"
)

// report counts differences, and repairs them if it was asked to. What a repair brings to light as dead is counted as
// that: it is why nothing is there, and stays so.
func (v *verifier) report(ctx context.Context, sure []suspect) error {
	wrong, uncounted := map[replicator.Cell]suspect{}, map[replicator.Cell]error{}
	for _, s := range sure {
		if v.found.has(s.op.Cell) {
			continue
		}
		if s.difference.Kind == replicator.Dead {
			unexplained, err := v.unexplained(ctx, s.op.Cell)
			if err != nil {
				return err
			}
			if !unexplained {
				uncounted[s.op.Cell] = s.difference.Err
				v.found.add(s.op.Cell)
				continue
			}
			s.difference.Kind = replicator.Missing // unless it is dead still
		}
		wrong[s.op.Cell] = s
		v.places.add(s.difference.Name)
		v.found.add(s.op.Cell)
	}
	if v.Repair && len(wrong) > 0 {
		if err := v.repair(ctx, wrong, uncounted); err != nil {
			return fmt.Errorf("repairing: %w", err)
		}
	}
	for c, s := range wrong {
		v.count(s.difference.Kind, Difference{Key: c.Key.String(), Column: c.Column, Kind: s.difference.Kind})
	}
	for c, why := range uncounted {
		d := Difference{Key: c.Key.String(), Column: c.Column, Kind: replicator.Dead}
		if why != nil {
			d.Reason = why.Error()
		}
		v.count(replicator.Dead, d)
	}
	return nil
}

// unexplained reports whether a repair has to try a dead cell again: nobody could, since there is no letter of it.
func (v *verifier) unexplained(ctx context.Context, cell replicator.Cell) (bool, error) {
	if !v.Repair || v.Buried == nil {
		return false, nil
	}
	buried, err := v.Buried(ctx, cell)
	return !buried, err
}

// repair mends cells that are wrong. Those of which nothing is there because they are dead it takes from them, and adds
// them, and what else is dead, to the uncounted.
func (v *verifier) repair(ctx context.Context, wrong map[replicator.Cell]suspect,
	uncounted map[replicator.Cell]error) error {
	dead, older, err := v.mend(ctx, slices.Collect(maps.Keys(wrong)))
	if err != nil {
		return err
	}
	left, err := v.left(ctx, wrong, older)
	if err != nil {
		return err
	}
	mended := 0
	for c, s := range wrong {
		if why := dead[c]; why != nil && s.difference.Kind == replicator.Missing {
			delete(wrong, c)
			uncounted[c] = why
		} else if !left[c] {
			mended++
		}
	}
	v.repaired(mended)
	for c, why := range dead {
		if _, differed := wrong[c]; differed || !v.found.has(c) {
			uncounted[c] = why
			v.found.add(c)
		}
	}
	return nil
}

// left are those of the wrong cells that a repair did not help, as the target took what was written for older than what
// it has. Mostly that is a newer change that the tail applied meanwhile, and the cell is right. Where somebody changed
// what the sink knows of the cell itself, it stays wrong, which must not count as repaired.
func (v *verifier) left(ctx context.Context, wrong map[replicator.Cell]suspect,
	older map[replicator.Key]bool) (map[replicator.Cell]bool, error) {
	left := map[replicator.Cell]bool{}
	for c := range wrong {
		left[c] = older[c.Key]
	}
	maps.DeleteFunc(left, func(_ replicator.Cell, is bool) bool { return !is })
	for range 3 { // a change between the look at the source and that at the target differs once
		if len(left) == 0 {
			break
		}
		still, err := v.look(ctx, slices.Collect(maps.Keys(left)), func(context.Context) error { return nil })
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(left, func(c replicator.Cell, _ bool) bool { _, is := still[c]; return !is })
	}
	return left, nil
}

// mend writes what the source holds of cells, and of those that share an entity with them: a difference is named by one
// cell, whichever of an entity's it is that differs. It returns which of them are dead, and why; and the keys of those
// of which the target has something newer.
func (v *verifier) mend(ctx context.Context, cells []replicator.Cell) (
	dead map[replicator.Cell]error, older map[replicator.Key]bool, err error) {
	all, err := v.entities(ctx, cells)
	if err != nil {
		return nil, nil, err
	}
	dead, older = map[replicator.Cell]error{}, map[replicator.Key]bool{}
	for len(all) > 0 {
		ops, rows, err := v.expected(ctx, all) // once more: a repair must not be older than what was compared
		if err != nil {
			return nil, nil, err
		}
		applied, err := v.Target.Apply(ctx, ops)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range applied.Stale {
			older[ops[i].Cell.Key] = true
		}
		why := map[int]error{}
		for i, op := range ops {
			for _, value := range op.Values {
				if value.Err != nil && !slices.Contains(applied.Stale, i) {
					why[i] = value.Err
				}
			}
		}
		for _, r := range applied.Rejected {
			why[r.Op] = r.Err
		}
		if err := v.bury(ctx, ops, rows, why); err != nil {
			return nil, nil, err
		}
		for i, err := range why {
			dead[ops[i].Cell] = err
		}
		all = all[len(ops):]
	}
	return dead, older, nil
}

// bury saves letters of the ops that are dead. Stopping must not come between: that the sink calls a cell dead, and
// nobody knows why, would be what is left of it.
func (v *verifier) bury(ctx context.Context, ops []replicator.Op, rows []*replicator.Row, why map[int]error) error {
	if v.Bury == nil || len(why) == 0 {
		return nil
	}
	var letters []replicator.DeadLetter
	for i, err := range why {
		letters = append(letters, replicator.NewDeadLetter(v.View.Name, ops[i], rows[i], err, v.Reader.Locate))
	}
	if err := v.Bury(context.WithoutCancel(ctx), letters); err != nil {
		return fmt.Errorf("%d cells became dead letters that could not be saved (the next `replicator verify %s --repair` "+
			"tries these cells again): %w", len(letters), v.View.Name, err)
	}
	return nil
}
