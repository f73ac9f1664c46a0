package pipeline

import (
	"context"
	"math"
	"slices"

	"replicator"
)

// sweeper re-reads, after a fill, everything in the target that the fill has not confirmed: entries from before the
// program maintained the view, and cells whose last row was deleted while the source's log was not being read. Only the
// filler's goroutine uses it.
type sweeper struct {
	*group
	reader replicator.Reader
	target replicator.Target
	intake *intake
	fresh  fresh
}

// sweptAtOnce is how many of the target's cells are listed and re-read at a time after a fill.
const sweptAtOnce = 500

func (s *sweeper) sweep(ctx context.Context) error {
	page := func(read func(after string) ([]replicator.Cell, string, error)) error {
		for after := ""; ; {
			cells, next, err := read(after)
			if err != nil {
				return err
			}
			if err := s.intake.look(ctx, cells); err != nil {
				return err
			}
			if after = next; after == "" {
				return nil
			}
		}
	}
	const limit = sweptAtOnce
	if tidier, ok := s.target.(replicator.Tidier); ok {
		for i := range s.views {
			unclaimed := func(after string) ([]replicator.Cell, string, error) {
				cells, next, err := tidier.Unclaimed(ctx, i, after, limit)
				return s.ours(cells), next, s.ofView(i, err)
			}
			if err := page(unclaimed); err != nil {
				return err
			}
		}
	}
	if err := s.sweepLetters(ctx, limit); err != nil {
		return err
	}
	needless, err := s.isFresh(ctx)
	if err == nil && !needless {
		var renamed []replicator.Cell // the previous page's cells, whose keys an ALTER may have changed
		err = page(func(after string) ([]replicator.Cell, string, error) {
			if err := s.lookAtRenamed(ctx, renamed); err != nil {
				return nil, "", err
			}
			cells, next, err := s.outdated(ctx, after, limit)
			renamed = cells
			return cells, next, err
		})
		if err == nil {
			err = s.lookAtRenamed(ctx, renamed)
		}
	}
	if former, ok := s.target.(replicator.Relinquisher); ok && err == nil {
		err = former.Relinquish(ctx)
	}
	if err != nil || !s.progress.current().Repair {
		return err
	}
	return s.tidy(ctx, limit)
}

// ours leaves out the cells that this source can't have. If several logs fill the target, a re-read of another log's
// cell would find no row, and remove the entry.
func (s *sweeper) ours(cells []replicator.Cell) []replicator.Cell {
	log := s.cfg.changelog()
	if log == nil {
		return cells
	}
	return slices.DeleteFunc(cells, func(c replicator.Cell) bool { return !log.Holds(c) })
}

// lacksAtOnce is about how many cells one call of Changelog.Lacks gets. Each call may read the whole log, so there must
// be few calls.
const lacksAtOnce = 100_000

// outdated returns a page of the cells that the fill did not confirm. With a Changelog, these are the target's cells
// that the log lacks, or has only in a lower version than the target, as after the log was lost and rewritten.
func (s *sweeper) outdated(ctx context.Context, after string, limit int) (
	cells []replicator.Cell, next string, err error,
) {
	log := s.cfg.changelog()
	if log == nil {
		return s.target.Outdated(ctx, s.progress.current().FillFrom, after, limit)
	}
	for next = after; ; {
		var known []replicator.Cell
		if known, next, err = s.target.Outdated(ctx, math.MaxInt64, next, limit); err != nil {
			return nil, "", err
		}
		if cells = append(cells, known...); next == "" || len(cells) >= lacksAtOnce {
			break
		}
	}
	known, err := s.target.Versions(ctx, cells)
	if err != nil {
		return nil, "", err
	}
	versions := make([]int64, len(known))
	for i, span := range known {
		versions[i] = span.Highest
	}
	cells, err = log.Lacks(ctx, cells, versions)
	return cells, next, err
}

// sweepLetters re-reads the cells that had dead letters before the fill, because their rows may have been deleted from
// the source.
func (s *sweeper) sweepLetters(ctx context.Context, limit int) error {
	p := s.cfg
	var cells []replicator.Cell
	former := map[string][]replicator.Cell{}
	for _, v := range s.views {
		for l, err := range p.Store.List(ctx, v.Name) {
			if err != nil {
				return err
			}
			filled := p.changelog() == nil && l.Order >= s.progress.current().FillFrom
			if l.Source != p.Source.Name() || filled {
				continue
			}
			if !v.Feeds(l.Cell) { // the cell fed only an earlier definition of the view
				former[v.Name] = append(former[v.Name], l.Cell)
				continue
			}
			if cells = append(cells, l.Cell); len(cells) < limit {
				continue
			}
			if err := s.intake.look(ctx, cells); err != nil {
				return err
			}
			cells = nil
		}
	}
	for view, cells := range former {
		if err := p.Store.Raise(ctx, view, p.Source.Name(), cells); err != nil {
			return err
		}
	}
	return s.intake.look(ctx, cells)
}

// lookAtRenamed re-reads cells under the keys that an ALTER gave them (the number 1 became the text '1'). The cells in
// `gone`, with the old keys, were just removed. If the sink names the entries of the old and the new key alike, the new
// entry was removed, too.
func (s *sweeper) lookAtRenamed(ctx context.Context, gone []replicator.Cell) error {
	keys := map[string][]replicator.Key{}
	for _, c := range gone {
		if !slices.Contains(keys[c.Table], c.Key) {
			keys[c.Table] = append(keys[c.Table], c.Key)
		}
	}
	for table, old := range keys {
		cells, err := s.reader.Siblings(ctx, table, old)
		if err != nil {
			return err
		}
		cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return slices.Contains(old, c.Key) })
		if err := s.intake.look(ctx, cells); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes strays (entries that came from no cell) from views that are rebuilt in place.
func (s *sweeper) tidy(ctx context.Context, limit int) error {
	tidier, ok := s.target.(replicator.Tidier)
	if !ok {
		return nil
	}
	for i := range s.views {
		for after := ""; ; {
			strays, next, err := tidier.Strays(ctx, i, after, limit)
			if err == nil {
				_, err = tidier.Tidy(ctx, i, strays)
			}
			if err != nil {
				return s.ofView(i, err)
			}
			if after = next; after == "" {
				break
			}
		}
	}
	return nil
}

func (s *sweeper) ofView(i int, err error) error { return replicator.OfView(err, s.views[i].Name) }
