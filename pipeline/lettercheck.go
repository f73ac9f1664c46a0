package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// A dead letter (a change that can't be applied) is recorded twice: the sink marks the cell as dead, and the store has
// the letter. The two are compared once for each store and view, because the store may be new or an older copy. A dead
// cell without a letter is then re-read, which records the letter again.

// compare compares the store's dead letters with the cells that the sink records as dead, unless the checkpoint says
// that this was done before.
func (l *letters) compare(ctx context.Context) error {
	for i, v := range l.views {
		if l.notes.lettersKnown(v.Name) {
			continue
		}
		if err := l.compareView(ctx, i); err != nil {
			return fmt.Errorf("view %s: comparing the store's dead letters with those that sink %s records: %w",
				v.Name, l.cfg.Name, err)
		}
		l.notes.setLettersKnown(v.Name)
	}
	return nil
}

func (l *letters) compareView(ctx context.Context, view int) error {
	v := l.views[view]
	buried, err := l.of(ctx, v)
	if err != nil {
		return err
	}
	found := 0
	for after := ""; ; {
		cells, next, err := l.target.Dead(ctx, view, after, comparedAtOnce)
		if err != nil {
			return err
		}
		var unknown []replicator.Cell
		for _, c := range cells {
			if _, has := buried[c]; has {
				buried[c] = true
			} else {
				unknown = append(unknown, c)
			}
		}
		if unknown, err = l.withoutLetters(ctx, v, unknown); err != nil {
			return err
		}
		found += len(unknown)
		if err := l.intake.look(ctx, unknown); err != nil {
			return err
		}
		if after = next; after == "" {
			break
		}
	}
	if found > 0 {
		l.cfg.Log.Warn("the store lacked dead letters of cells that are dead letters in the sink. The cells were read "+
			"again: see `replicator deadletters list`", "sink", l.cfg.Name, "view", v.Name, "cells", found)
	}
	return l.lookAtUnknown(ctx, v, buried)
}

// withoutLetters returns those of the given cells for which the store has no dead letter. It first waits until changes
// in flight are applied, because these may record letters.
func (l *letters) withoutLetters(
	ctx context.Context, v *replicator.View, cells []replicator.Cell,
) ([]replicator.Cell, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	if err := l.intake.look(ctx, nil); err != nil { // wait until changes in flight have recorded their letters
		return nil, err
	}
	var lost []replicator.Cell
	for _, c := range cells {
		known, err := l.cfg.Store.Known(ctx, v.Name, l.cfg.Source.Name(), c)
		if err != nil {
			return nil, err
		}
		if known == 0 {
			lost = append(lost, c)
		}
	}
	return lost, nil
}

// comparedAtOnce is how many dead cells are listed and re-read at a time.
const comparedAtOnce = 500

// of returns the cells of this source that have dead letters in the store. The values are false. compareView sets a
// value to true if the sink, too, records the cell as dead.
func (l *letters) of(ctx context.Context, v *replicator.View) (map[replicator.Cell]bool, error) {
	p := l.cfg
	counts, err := p.Store.Count(ctx)
	if err != nil || counts != nil && counts[v.Name] == 0 {
		return nil, err
	}
	cells := map[replicator.Cell]bool{}
	for letter, err := range p.Store.List(ctx, v.Name) {
		if err != nil {
			return nil, err
		}
		if letter.Source == p.Source.Name() {
			cells[letter.Cell] = false
		}
	}
	return cells, nil
}

// lookAtUnknown re-reads the cells of dead letters that the sink does not record as dead: they may be gone from the
// source, or applied since. It clears the letters of cells that no longer feed the view.
func (l *letters) lookAtUnknown(ctx context.Context, v *replicator.View, buried map[replicator.Cell]bool) error {
	var doubtful, unfed []replicator.Cell
	for c, known := range buried {
		switch {
		case known:
		case v.Feeds(c):
			doubtful = append(doubtful, c)
		default:
			unfed = append(unfed, c)
		}
	}
	for len(doubtful) > 0 {
		n := min(len(doubtful), comparedAtOnce)
		if err := l.intake.look(ctx, doubtful[:n]); err != nil {
			return err
		}
		doubtful = doubtful[n:]
	}
	return l.cfg.Store.Raise(ctx, v.Name, l.cfg.Source.Name(), unfed)
}
