package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// What the sink knows to be dead and what the store has letters of are compared once in a store's life with a view:
// after that both change together (settle). A store that was lost, one that another replicator has for itself, or one
// from before sinks knew, has yet to be told: the sink wins. Such cells are looked at anew, which buries their letters
// again, or applies what was mended.
//
// A letter that was dropped is not missed, then, by the next start: its checkpoint says that the store was told.

// mourn compares letters and sink for the views of which the store was not told yet.
func (s *session) mourn(ctx context.Context) error {
	for i, v := range s.run.views {
		if s.run.told(v) {
			continue
		}
		if err := s.mournView(ctx, i); err != nil {
			return fmt.Errorf("view %s: comparing its dead letters with what sink %s knows of them: %w", v.Name, s.run.pipeline.Name, err)
		}
		s.run.setTold(v)
	}
	return nil
}

func (s *session) mournView(ctx context.Context, view int) error {
	v := s.run.views[view]
	letters, err := s.lettersOf(ctx, v)
	if err != nil {
		return err
	}
	found := 0
	for after := ""; ; {
		cells, next, err := s.target.Dead(ctx, view, after, mournedAtOnce)
		if err != nil {
			return err
		}
		var unknown []replicator.Cell
		for _, c := range cells {
			if _, has := letters[c]; has {
				letters[c] = true
			} else {
				unknown = append(unknown, c)
			}
		}
		found += len(unknown)
		if err := s.look(ctx, unknown); err != nil {
			return err
		}
		if after = next; after == "" {
			break
		}
	}
	if found > 0 {
		s.run.pipeline.Log.Warn("the sink knows of dead letters that the store does not: their cells were looked at anew",
			"sink", s.run.pipeline.Name, "view", v.Name, "cells", found)
	}
	return s.doubt(ctx, v, letters)
}

// mournedAtOnce is how many cells are listed, and looked at, together.
const mournedAtOnce = 500

// lettersOf are the cells of this source that the store has letters of. None is known to the sink yet.
func (s *session) lettersOf(ctx context.Context, v *replicator.View) (map[replicator.Cell]bool, error) {
	p := s.run.pipeline
	counts, err := p.Store.Count(ctx)
	if err != nil || counts != nil && counts[v.Name] == 0 {
		return nil, err
	}
	cells := map[replicator.Cell]bool{}
	for l, err := range p.Store.List(ctx, v.Name) {
		if err != nil {
			return nil, err
		}
		if l.Source == p.Source.Name() {
			cells[l.Cell] = false
		}
	}
	return cells, nil
}

// doubt looks at the cells of letters that the sink knows nothing of: they may be gone from the source, or be applied
// since.
func (s *session) doubt(ctx context.Context, v *replicator.View, letters map[replicator.Cell]bool) error {
	var doubtful, unfed []replicator.Cell
	for c, known := range letters {
		switch {
		case known:
		case v.Feeds(c):
			doubtful = append(doubtful, c)
		default:
			unfed = append(unfed, c)
		}
	}
	for len(doubtful) > 0 {
		n := min(len(doubtful), mournedAtOnce)
		if err := s.look(ctx, doubtful[:n]); err != nil {
			return err
		}
		doubtful = doubtful[n:]
	}
	return s.run.pipeline.Store.Raise(ctx, v.Name, unfed)
}

// unburied looks at the cells of stale ops that the view knows to be dead and the store has no letter of: another
// replicator was told first. Not at those that were looked at just now: that would find the same.
func (s *session) unburied(ctx context.Context, ops []replicator.Op, rows []*replicator.Row, dead []replicator.ValueAt) error {
	for _, d := range dead {
		op, v := ops[d.Op], s.run.views[d.View]
		if op.AsOf != 0 || rows[d.Op] == nil {
			continue
		}
		known, err := s.run.pipeline.Store.Known(ctx, v.Name, op.Cell)
		if err != nil {
			return err
		}
		if !known {
			s.add(&replicator.Change{Kind: replicator.Delete, Cell: op.Cell, Version: look, Rewrite: true}, 0)
		}
	}
	return nil
}

// told reports whether the store was told which cells of a view the sink knows to be dead.
func (r *run) told(v *replicator.View) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.letters[v.Name]
}

func (r *run) setTold(v *replicator.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.letters[v.Name], r.dirty = true, true
}
