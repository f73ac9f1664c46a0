package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// The sink's dead cells and the store's dead letters are compared once in a store's life with a view. After that both
// change together (update). The comparison is for a store that was lost, one of a second replicator, or one from before
// sinks recorded dead cells. The sink wins: such cells are re-read, which records their letters again, or applies what
// was repaired. A fill finds dead cells anyway.
//
// So the next start does not miss a letter that was dropped: the checkpoint says that the store was told.

// compare compares letters and sink for views of which the store was not told yet.
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
		l.cfg.Log.Warn("the sink has dead letters that the store lacks: their cells were read again",
			"sink", l.cfg.Name, "view", v.Name, "cells", found)
	}
	return l.lookAtUnknown(ctx, v, buried)
}

// withoutLetters are those of some dead cells of the sink that have no letters in the store. The lanes may have
// recorded some since the letters were listed, or be about to.
func (l *letters) withoutLetters(
	ctx context.Context, v *replicator.View, cells []replicator.Cell,
) ([]replicator.Cell, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	if err := l.intake.look(ctx, nil); err != nil { // changes in flight record their letters
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

// comparedAtOnce is how many cells are listed, and re-read, together.
const comparedAtOnce = 500

// of are the cells of this source with letters in the store, each still unconfirmed by the sink.
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

// lookAtUnknown re-reads the cells of letters that the sink doesn't know as dead: they may be gone from the source, or
// have been applied since.
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
