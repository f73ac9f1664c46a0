package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// What the sink knows to be dead and what the store has letters of are compared once in a store's life with a view:
// after that both change together (update). A store that was lost, one that another replicator has for itself, or one
// from before sinks knew, has yet to be told: the sink wins. Such cells are looked at anew, which buries their letters
// again, or applies what was mended. A fill finds them anyway.
//
// A letter that was dropped is not missed, then, by the next start: its checkpoint says that the store was told.

// compare compares letters and sink for the views of which the store was not told yet.
func (l *letters) compare(ctx context.Context) error {
	for i, v := range l.views {
		if l.notes.lettersKnown(v.Name) {
			continue
		}
		if err := l.compareView(ctx, i); err != nil {
			return fmt.Errorf("view %s: comparing its dead letters with what sink %s knows of them: %w",
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
		l.cfg.Log.Warn("the sink knows of dead letters that the store does not: their cells were looked at anew",
			"sink", l.cfg.Name, "view", v.Name, "cells", found)
	}
	return l.lookAtUnknown(ctx, v, buried)
}

// withoutLetters are those of some cells, dead in the sink, that the store has no letters of: the lanes may have buried
// some since the letters were listed, or be about to.
func (l *letters) withoutLetters(
	ctx context.Context, v *replicator.View, cells []replicator.Cell,
) ([]replicator.Cell, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	if err := l.intake.look(ctx, nil); err != nil { // what is in flight buries its letters
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

// comparedAtOnce is how many cells are listed, and looked at, together.
const comparedAtOnce = 500

// of are the cells of this source that the store has letters of. None is known to the sink yet.
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

// lookAtUnknown looks at the cells of letters that the sink knows nothing of: they may be gone from the source, or be
// applied since.
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
