package pipeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"replicator"
)

// near is how far apart in the log, in Orders (bytes of binlog), views may be and still start together: what the
// farther one has applied is repeated, which costs it a little and changes nothing.
const near = 16 << 20

// together groups checkpoints into those that can run together: at about the same place, and filled, or in one fill.
func together(checkpoints []replicator.Checkpoint) [][]replicator.Checkpoint {
	ordered := slices.Clone(checkpoints)
	slices.SortStableFunc(ordered, func(a, b replicator.Checkpoint) int { return cmp.Compare(a.Position.Order, b.Position.Order) })
	var groups [][]replicator.Checkpoint
	for _, c := range ordered {
		i := slices.IndexFunc(groups, func(g []replicator.Checkpoint) bool {
			return g[0].Filling() == c.Filling() && (!c.Filling() || g[0].Epoch == c.Epoch) && g[0].FillFrom == c.FillFrom && g[0].Repair == c.Repair &&
				c.Position.Order-g[0].Position.Order < near // the group's first is its lowest
		})
		if i < 0 {
			groups = append(groups, []replicator.Checkpoint{c})
		} else {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

// joinable is the lag below which two runs are taken to stand at the same place. A session has to last as long: what
// ended the one before has shown again by then.
const joinable = 2 * time.Second

// join stops two runs that have caught up and returns the checkpoints of their union; nil if there are no two.
func (p *Pipeline) join(ctx context.Context) []replicator.Checkpoint {
	p.mu.Lock()
	var ready []*run
	for _, r := range p.runs {
		s := r.current()
		if s == nil || r.filling() || r.shadow || time.Since(s.began) < joinable {
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
	var union []replicator.Checkpoint
	stood := append(a.stood(), b.stood()...)
	for _, v := range p.Views { // in the configuration's order
		union = append(union, checkpointsOf([]*replicator.View{v}, stood)...)
	}
	p.Log.Info("views join", "sink", p.Name, "views", append(a.names(), b.names()...))
	return union
}

// part ends runs of which only some views failed, and lets each group of their views go on by itself. Those that failed
// are tried again until somebody acts, and join the others when they have caught up.
func (p *Pipeline) part(ctx context.Context) error {
	p.mu.Lock()
	runs := slices.Clone(p.runs)
	p.mu.Unlock()
	for _, r := range runs {
		groups := r.parts()
		if groups == nil {
			continue
		}
		if err := p.end(ctx, r); err != nil {
			return err
		}
		_, reason := r.trouble()
		stood := r.stood()
		var parted []*run
		for _, views := range groups {
			p.Log.Warn("views part from the others of their sink", "sink", p.Name, "views", names(views), "reason", reason)
			next, err := newRun(p, checkpointsOf(views, stood))
			if err != nil {
				return err
			}
			next.shadow = r.shadow
			parted = append(parted, next)
		}
		p.partRebuild(r, parted)
		for _, next := range parted {
			p.launch(next)
		}
	}
	return nil
}

// partRebuild makes of the rebuild that had a run one for each of the runs that this has parted into.
func (p *Pipeline) partRebuild(old *run, parted []*run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.rebuilds, func(b *rebuild) bool { return b.run == old })
	if i < 0 {
		return
	}
	whole := p.rebuilds[i]
	p.rebuilds = slices.Delete(p.rebuilds, i, i+1)
	for _, r := range parted {
		b := &rebuild{run: r}
		for j, v := range whole.views {
			switch {
			case len(whole.shadows) == 0 && slices.Contains(r.views, v):
				b.views = append(b.views, v)
			case len(whole.shadows) > 0 && slices.Contains(r.views, whole.shadows[j]):
				b.views, b.shadows = append(b.views, v), append(b.shadows, whole.shadows[j])
			}
		}
		if len(b.views) > 0 {
			p.rebuilds = append(p.rebuilds, b)
		}
	}
}

// checkpointsOf are those of some views.
func checkpointsOf(views []*replicator.View, all []replicator.Checkpoint) []replicator.Checkpoint {
	return slices.DeleteFunc(slices.Clone(all), func(c replicator.Checkpoint) bool { return !slices.Contains(names(views), c.View) })
}
