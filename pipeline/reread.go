package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
)

// rereads is how many times a cell is re-read if the sink can't tell whether the result is stale. Once is enough,
// unless reading and applying take longer than the sink remembers deleted cells.
const rereads = 5

// errBehindHorizon ends a session whose re-reads stay below the sink's horizon (State.Unknown). Most likely, another
// replicator has taken the views over in a higher epoch. The next session finds that out (above.yield).
var errBehindHorizon = errors.New("the source's answers are older than the deletions that the sink still remembers, " +
	"so a row may have been deleted since. Stop any other replicator of these views, follow a server that does not " +
	"lag, or increase [limits] deleted")

// applyOps applies a batch. It re-reads cells from the source if the sink can't tell whether an op is stale, or if the
// sink records the cell as a dead letter that the store lacks.
func (w *writer) applyOps(ctx context.Context, b *opBatch) (replicator.Applied, error) {
	applied, err := w.target.Apply(ctx, b.ops)
	for n := 0; err == nil; n++ {
		if n == rereads && len(applied.Unknown) > 0 {
			return applied, errBehindHorizon
		}
		var places []int
		if places, err = w.letters.missing(ctx, b.ops, &applied); err != nil {
			break
		}
		places = append(places, applied.Unknown...)
		if applied.Unknown = nil; len(places) == 0 {
			break
		}
		err = w.reread(ctx, b, places, &applied)
	}
	if err == nil {
		w.forgetting.note(b.ops)
	}
	return applied, err
}

// reread reads the newest rows of some cells of a batch from the source, and applies them instead of the cells' ops.
// places are the indexes of these ops.
func (w *writer) reread(ctx context.Context, b *opBatch, places []int, applied *replicator.Applied) error {
	for len(places) > 0 {
		cells := make([]replicator.Cell, len(places))
		for i, place := range places {
			cells[i] = b.ops[place].Cell
		}
		newest, asOf, err := w.reader.Newest(ctx, cells, w.share())
		if err != nil {
			return fmt.Errorf("reading the newest rows of %d cells: %w", len(cells), err)
		}
		ops := make([]replicator.Op, len(newest))
		for i, row := range newest {
			ops[i] = replicator.Op{Cell: cells[i], Version: replicator.NoVersion, AsOf: asOf,
				Rewrite: b.ops[places[i]].Rewrite}
			if row != nil {
				ops[i].Version = row.Version
			}
			ops[i].Values = w.evaluator.Evaluate(cells[i], row)
			b.ops[places[i]], b.rows[places[i]] = ops[i], row
		}
		some, err := w.target.Apply(ctx, ops)
		if err != nil {
			return err
		}
		applied.Add(some, places)
		places = places[len(newest):]
	}
	return nil
}

// missing returns the indexes of stale ops whose cells the sink records as dead while the store has no dead letter, and
// removes them from applied. A re-read of these cells yields the missing letters.
func (l *letters) missing(ctx context.Context, ops []replicator.Op, applied *replicator.Applied) ([]int, error) {
	if len(applied.Dead) == 0 {
		return nil, nil
	}
	stale := map[int]bool{}
	for _, i := range applied.Stale {
		stale[i] = true
	}
	var places []int
	for _, d := range applied.Dead {
		if !stale[d.Op] || ops[d.Op].AsOf != 0 || slices.Contains(places, d.Op) {
			continue
		}
		known, err := l.cfg.Store.Known(ctx, l.views[d.View].Name, l.cfg.Source.Name(), ops[d.Op].Cell)
		if err != nil {
			return nil, err
		}
		if known == 0 {
			places = append(places, d.Op)
		}
	}
	if len(places) > 0 {
		again := func(op int) bool { return slices.Contains(places, op) }
		applied.Stale = slices.DeleteFunc(applied.Stale, again)
		applied.Dead = slices.DeleteFunc(applied.Dead, func(d replicator.ValueAt) bool { return again(d.Op) })
	}
	return places, nil
}
