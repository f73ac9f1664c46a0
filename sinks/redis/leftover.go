package redis

import (
	"context"
	"sync/atomic"

	"replicator"
	"replicator/sinks/judge"
)

var _ replicator.Emptier = (*Sink)(nil)

// Left implements replicator.Emptier. It counts the cells that still contribute to the view, according to the records.
func (s *Sink) Left(ctx context.Context, view string) (left []replicator.Leftover, err error) {
	targets, err := s.leaving(ctx, view)
	entries := int64(0)
	for _, t := range targets {
		if err == nil {
			err = t.eachRecord(ctx, func(_ string, r *record) error {
				for i := range r.cells {
					if v := r.cells[i].view(t.keepers[0].id); v != nil && v.contributes() {
						entries++
					}
				}
				return nil
			})
		}
	}
	if entries > 0 {
		left = append(left, replicator.Leftover{What: "keys of view " + view, Count: entries, Of: "cells"})
	}
	return left, err
}

// Empty implements replicator.Emptier. It removes each cell's contribution, as if the cell had been deleted.
func (s *Sink) Empty(ctx context.Context, view string) error {
	targets, err := s.leaving(ctx, view)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err = t.empty(ctx); err == nil {
			err = s.forget(ctx, t.source, view, storedMark{Vacated: true})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaving returns targets that remove a view of which only the name is known, one for each source that fed it. Their
// generation (number of a definition) is above all stored ones. So no stored state counts, and no removal is stale.
func (s *Sink) leaving(ctx context.Context, view string) (targets []*Target, err error) {
	sources, err := s.Sources(ctx)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		marks, err := s.readMarks(ctx, source)
		if err != nil {
			return nil, err
		}
		m := marks[view]
		if m == nil {
			continue
		}
		k := &keeper{view: &replicator.View{Name: view}, generation: m.generation(), disowned: new(atomic.Uint64)}
		k.feedBy(source, nil)
		targets = append(targets, &Target{sink: s, source: source, views: []*replicator.View{k.view},
			keepers: []*keeper{k}, memory: newMemory(), reclaims: true,
			marks: judge.NewMarks(nil, nil, "")})
	}
	return targets, nil
}
