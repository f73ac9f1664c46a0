package replicator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// near is how far apart in the log, in Orders (bytes of binlog), views may be and still start together: what the farther
// one has applied is repeated, which costs it a little and changes nothing.
const near = 16 << 20

// together groups checkpoints into those that can run together: at about the same place, and filled equally far.
func together(checkpoints []Checkpoint) [][]Checkpoint {
	ordered := slices.Clone(checkpoints)
	slices.SortStableFunc(ordered, func(a, b Checkpoint) int { return cmp.Compare(a.Position.Order, b.Position.Order) })
	var groups [][]Checkpoint
	for _, c := range ordered {
		i := slices.IndexFunc(groups, func(g []Checkpoint) bool {
			return g[0].Filling() == c.Filling() && maps.Equal(g[0].Fill, c.Fill) && g[0].FillFrom == c.FillFrom && g[0].Repair == c.Repair &&
				c.Position.Order-g[0].Position.Order < near // the group's first is its lowest
		})
		if i < 0 {
			groups = append(groups, []Checkpoint{c})
		} else {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

// joinable is the lag below which two runs are taken to stand at the same place.
const joinable = 2 * time.Second

// join stops two runs that have caught up and returns the checkpoints of their union; nil if there are no two.
func (p *Pipeline) join(ctx context.Context) []Checkpoint {
	p.mu.Lock()
	var ready []*run
	for _, r := range p.runs {
		s := r.current()
		if s == nil || r.filling() || r.shadow {
			continue
		}
		if lag, known := s.lag(); known && lag < joinable {
			ready = append(ready, r)
		}
	}
	p.mu.Unlock()
	if len(ready) < 2 {
		return nil
	}
	a, b := ready[0], ready[1]
	a.stop() // both at once: neither waits for the other
	b.stop()
	if p.end(ctx, a) != nil || p.end(ctx, b) != nil {
		return nil
	}
	var union []Checkpoint
	for _, v := range p.Views { // in the configuration's order
		for _, r := range []*run{a, b} {
			if slices.Contains(r.views, v) {
				union = append(union, Checkpoint{View: v.Name, Source: p.Source.Name(), Fingerprint: v.Fingerprint, Position: r.position()})
			}
		}
	}
	p.Log.Info("views join", "sink", p.Name, "views", append(a.names(), b.names()...))
	return union
}

// tablesOf are the tables that views read, each once.
func tablesOf(views []*View) (tables []string) {
	for _, v := range views {
		for _, f := range v.From {
			if !slices.Contains(tables, f.Table) {
				tables = append(tables, f.Table)
			}
		}
	}
	return tables
}

// part ends a run that failed because of one table and lets the views that don't read it go on by themselves. Those that do
// stay failed until somebody acts, and join the others when they have caught up. A rebuild's run is left alone: it is the
// rebuild that knows it.
func (p *Pipeline) part(ctx context.Context) error {
	for _, r := range p.toPart() {
		if r.shadow || slices.ContainsFunc(r.views, func(v *View) bool { return p.rebuildOf(v) != nil }) {
			continue
		}
		_, err := r.trouble()
		table := tableOf(err)
		of, others := r.readers(table)
		if err := p.end(ctx, r); err != nil {
			return err
		}
		p.Log.Warn("views part: only some read the table", "sink", p.Name, "table", table, "failed", names(of), "go_on", names(others))
		stood := r.stood()
		for _, views := range [][]*View{of, others} {
			if err := p.launchAt(checkpointsOf(views, stood)); err != nil {
				return err
			}
		}
	}
	return nil
}

// toPart are the runs that failed because of a table which not all of their views read.
func (p *Pipeline) toPart() []*run {
	p.mu.Lock()
	defer p.mu.Unlock()
	var runs []*run
	for _, r := range p.runs {
		if _, err := r.trouble(); r.parts(err) {
			runs = append(runs, r)
		}
	}
	return runs
}

// checkpointsOf are those of some views, with the progress of the tables that these read.
func checkpointsOf(views []*View, all []Checkpoint) (some []Checkpoint) {
	tables := tablesOf(views)
	for _, c := range all {
		if !slices.Contains(names(views), c.View) {
			continue
		}
		maps.DeleteFunc(c.Fill, func(table string, _ Progress) bool { return !slices.Contains(tables, table) })
		some = append(some, c)
	}
	return some
}
