package pipeline

import (
	"errors"
	"maps"
	"slices"

	"replicator"
)

// SwapVerify goes on with a table that was renamed into a watched one's place, and has the views that read it compared.
const SwapVerify = "verify"

// Unlogged implements replicator.Handler. Where another table was renamed into a watched one's place it goes on with
// that one, if it is configured so, and notes that the views which read it have to be compared with the source: before
// anything behind that place can be applied and saved, so that no crash forgets it. Everything else ends the session.
func (s *session) Unlogged(table string, order int64, err error) error {
	if s.run.pipeline.OnSwap != SwapVerify || !errors.Is(err, replicator.ErrSwapped) {
		return err
	}
	var of []*replicator.View
	s.run.mu.Lock()
	for _, v := range s.run.views {
		if slices.Contains(replicator.TablesOf([]*replicator.View{v}), table) {
			of = append(of, v)
			s.run.swapped[v.Name], s.run.dirty = order, true
		}
	}
	s.run.mu.Unlock()
	s.run.pipeline.Log.Warn("another table was renamed into a watched one's place: going on with it; its views are compared with it and repaired",
		"sink", s.run.pipeline.Name, "source", s.run.pipeline.Source.Name(), "table", table, "position", s.reader.Locate(order), "views", names(of))
	return nil
}

// Swapped are the views of which a table was replaced by another one, with the place where: they have to be compared
// with the source and repaired, then Compared is called. Views that don't run are left out.
func (p *Pipeline) Swapped() map[string]int64 {
	all := map[string]int64{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		if r.shadow {
			continue
		}
		r.mu.Lock()
		maps.Copy(all, r.swapped)
		r.mu.Unlock()
	}
	return all
}

// Compared says that a view was compared with the source, and repaired, after the place that Swapped gave.
func (p *Pipeline) Compared(view string, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		r.mu.Lock()
		if r.swapped[view] == at && at != 0 {
			delete(r.swapped, view)
			r.dirty = true
		}
		r.mu.Unlock()
	}
}
