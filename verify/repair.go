package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// report counts differences, and repairs them if asked to. If a repair reveals that a cell is dead, the cell is counted
// as dead, because its content stays missing.
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
				continue
			}
			s.difference.Kind = replicator.Missing // repaired like a missing cell; or it stays a dead letter
		}
		wrong[s.op.Cell] = s
	}
	if v.Repair && len(wrong) > 0 {
		if err := v.repair(ctx, wrong, uncounted); err != nil {
			return fmt.Errorf("repairing: %w", err)
		}
	}
	// Cells are counted, and added to v.found, only after the repair. If it fails, the next run must count them again.
	for c, s := range wrong {
		v.places.add(s.difference.Name)
		v.found.add(c)
		v.count(s.difference.Kind, Difference{Key: c.Key.String(), Column: c.Column, Kind: s.difference.Kind})
	}
	for c, why := range uncounted {
		d := Difference{Key: c.Key.String(), Column: c.Column, Kind: replicator.Dead}
		if why != nil {
			d.Reason = why.Error()
		}
		v.found.add(c)
		v.count(replicator.Dead, d)
	}
	return nil
}

// unexplained reports whether a repair must retry a cell that the sink records as dead: a cell without a dead letter.
// An operator can retry only cells that have one.
func (v *verifier) unexplained(ctx context.Context, cell replicator.Cell) (bool, error) {
	if !v.Repair || v.Buried == nil {
		return false, nil
	}
	buried, err := v.Buried(ctx, cell)
	return !buried, err
}

// repair repairs the cells of the map `wrong`. If a cell turns out to be a dead letter, repair adds it to the map
// `uncounted`, unless an earlier check counted it. If the view lacked the cell, repair also removes it from `wrong`, so
// that it is counted only as dead.
func (v *verifier) repair(ctx context.Context, wrong map[replicator.Cell]suspect,
	uncounted map[replicator.Cell]error) error {
	dead, left, err := v.rewrite(ctx, wrong)
	if err != nil {
		return err
	}
	mended := 0
	for c, s := range wrong {
		newer, is := left[c]
		if why := dead[c]; why != nil && s.difference.Kind == replicator.Missing {
			delete(wrong, c)
			uncounted[c] = why
		} else if !is {
			mended++
		} else if newer {
			v.result.Newer++
		}
	}
	v.repaired(mended)
	for c, why := range dead {
		if _, differed := wrong[c]; differed || !v.found.has(c) {
			uncounted[c] = why
		}
	}
	return nil
}

// rewriteTime is how long a repair retries cells that keep changing.
const rewriteTime = 30 * time.Second

// rewrite writes the source's rows of cells until the view is right. If the sink has a newer change by then, it rejects
// the row as older, and the cell is read again. left has the cells that stay wrong. true: the sink keeps a newer
// version than the source has; false: the cell has kept changing for longer than rewriteTime.
func (v *verifier) rewrite(ctx context.Context, wrong map[replicator.Cell]suspect) (
	dead map[replicator.Cell]error, left map[replicator.Cell]bool, err error,
) {
	dead, left = map[replicator.Cell]error{}, map[replicator.Cell]bool{}
	began, todo := time.Now(), maps.Clone(wrong)
	for n := 1; ; n++ {
		died, older, err := v.mend(ctx, slices.Collect(maps.Keys(todo)))
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(dead, died)
		maps.DeleteFunc(todo, func(c replicator.Cell, _ suspect) bool {
			_, is := older[c.Key]
			return !is
		})
		if len(todo) == 0 {
			return dead, left, nil
		}
		now, err := v.look(ctx, slices.Collect(maps.Keys(todo)), func(context.Context) error { return nil })
		if err != nil {
			return nil, nil, err
		}
		for c, was := range todo {
			s, differs := now[c]
			todo[c] = s
			switch {
			case !differs, !older[c.Key] && !s.stands(was):
				delete(todo, c)
			case s.stands(was), time.Since(began) > rewriteTime:
				left[c] = s.stands(was)
				delete(todo, c)
			}
		}
		if err := pause.For(ctx, min(time.Duration(n), 10)*5*time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
}

// stands reports whether the sink's states of the cells are the same as at an earlier check (was). It ignores AsOf,
// which rises even if the sink rejects a write as older.
func (s suspect) stands(was suspect) bool {
	return slices.EqualFunc(s.difference.States, was.difference.States, func(now, before replicator.State) bool {
		return now.Version == before.Version && now.Order == before.Order
	})
}

// mend writes the source's rows of cells, and of all cells of the same keys, in one step to the view and to the views
// that are opened together with it (Options.Together). `dead` has the reason of each cell that is now a dead letter.
// `again` has the keys that must be compared again; true: the sink did not apply a write of the key.
func (v *verifier) mend(ctx context.Context, cells []replicator.Cell) (
	dead map[replicator.Cell]error, again map[replicator.Key]bool, err error) {
	all, err := v.entities(ctx, cells)
	if err != nil {
		return nil, nil, err
	}
	var to *Together
	if v.Together != nil {
		if to, err = v.Together(ctx); err != nil {
			return nil, nil, err
		}
	}
	if to == nil {
		to = v.alone()
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	dead, again = map[replicator.Cell]error{}, map[replicator.Key]bool{}
	for len(all) > 0 {
		ops, rows, err := to.expected(ctx, all) // re-read the source: a repair must not be older than the comparison
		if err != nil {
			return nil, nil, err
		}
		applied, err := to.Target.Apply(ctx, ops)
		if err != nil {
			return nil, nil, err
		}
		if len(to.Views) > 1 {
			for _, op := range ops {
				again[op.Cell.Key] = false
			}
		}
		left := slices.Concat(applied.Stale, applied.Unknown) // ops of cells of which the sink has newer changes
		for _, i := range left {
			again[ops[i].Cell.Key] = true
		}
		why := make([]map[int]error, len(to.Views))
		for view := range why {
			why[view] = map[int]error{}
		}
		for i, op := range ops {
			for _, value := range op.Values {
				if value.Err != nil && !slices.Contains(left, i) {
					why[value.View][i] = value.Err
				}
			}
		}
		for _, r := range applied.Rejected {
			why[r.View][r.Op] = r.Err
		}
		if err := v.raise(ctx, to.Views, ops, applied.Elsewhere); err != nil {
			return nil, nil, err
		}
		for view, why := range why {
			if err := v.bury(ctx, to.Views[view].Name, ops, rows, why); err != nil {
				return nil, nil, err
			}
		}
		for i, err := range why[0] {
			dead[ops[i].Cell] = err
		}
		all = all[len(ops):]
	}
	return dead, again, nil
}

// forget removes from the view those of the given cells that have no row in the source.
func (v *verifier) forget(ctx context.Context, cells []replicator.Cell) error {
	var gone []replicator.Cell
	for len(cells) > 0 {
		ops, _, err := v.alone().expected(ctx, cells)
		if err != nil {
			return err
		}
		for _, op := range ops {
			if op.Version == replicator.NoVersion {
				gone = append(gone, op.Cell)
			}
		}
		cells = cells[len(ops):]
	}
	if len(gone) == 0 {
		return nil
	}
	_, _, err := v.mend(ctx, gone)
	return err
}

// raise clears dead letters of other sources: the views show their cells again since ops were applied. A repair's ops
// are in no log, so no pipeline would clear these letters. A stop must not interrupt raise.
func (v *verifier) raise(
	ctx context.Context, views []*replicator.View, ops []replicator.Op, shown []replicator.Elsewhere,
) error {
	if v.Raise == nil {
		return nil
	}
	type letters struct {
		view   int
		source string
	}
	cells := map[letters][]replicator.Cell{}
	for _, e := range shown {
		of := letters{e.View, e.Source}
		cells[of] = append(cells[of], ops[e.Op].Cell)
	}
	for of, cells := range cells {
		name := views[of.view].Name
		if err := v.Raise(context.WithoutCancel(ctx), name, of.source, cells); err != nil {
			return fmt.Errorf("view %s shows %d cells of source %s whose dead letters could not be removed "+
				"(`replicator deadletters retry --view %s` removes them): %w", name, len(cells), of.source, name, err)
		}
	}
	return nil
}

// bury saves dead letters of the cells that could not be written. reasons says why, by index of the op. A stop must not
// interrupt bury: the sink would have a dead cell whose reason nothing records.
func (v *verifier) bury(
	ctx context.Context, view string, ops []replicator.Op, rows []*replicator.Row, reasons map[int]error,
) error {
	if v.Bury == nil || len(reasons) == 0 {
		return nil
	}
	var letters []replicator.DeadLetter
	for i, err := range reasons {
		letters = append(letters, replicator.NewDeadLetter(view, ops[i], rows[i], err, v.Reader.Locate))
	}
	if err := v.Bury(context.WithoutCancel(ctx), letters); err != nil {
		return fmt.Errorf("%d cells became dead letters that could not be saved (the next `replicator verify %s --repair` "+
			"tries these cells again): %w", len(letters), view, err)
	}
	return nil
}
