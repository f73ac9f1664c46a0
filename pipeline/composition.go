package pipeline

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"replicator"
)

// composition decides which views run together: it launches, ends, parts and joins runs. The supervisor's goroutine
// alone uses it.
type composition struct {
	*shared
	lifetime context.Context // of the runs: they end at once when it is done
	running  sync.WaitGroup
}

// newRun makes a run of views from their checkpoints, without launching it.
func (c *composition) newRun(views viewSet, from []replicator.Checkpoint) (*run, error) {
	evaluator, err := c.cfg.Compile(views)
	if err != nil {
		return nil, err
	}
	source, err := c.cfg.sourceOf(views)
	if err != nil {
		return nil, err
	}
	r := &run{
		group: &group{
			shared: c.shared, views: views, evaluator: evaluator, source: source,
			progress: newProgress(views, from), notes: newNotes(from), meter: newMeter(len(views), c.cfg.Interval),
			forgetting: &forgetting{},
		},
		done: make(chan struct{}), state: replicator.StateStarting,
	}
	r.stopping, r.stop = context.WithCancel(context.Background())
	return r, nil
}

func (c *composition) launch(r *run) {
	c.runs.add(r)
	c.begin(r)
}

func (c *composition) begin(r *run) {
	c.running.Go(func() { _ = r.loop(c.lifetime) }) // it logs what ends a session; what ends the loop is ours
}

// launchAt runs views of the configuration together from their checkpoints.
func (c *composition) launchAt(checkpoints []replicator.Checkpoint) error {
	if len(checkpoints) == 0 {
		return nil
	}
	var views viewSet
	for _, at := range checkpoints {
		views = append(views, c.cfg.view(at.View))
	}
	r, err := c.newRun(views, checkpoints)
	if err == nil {
		r.late = behind(views, checkpoints)
		c.launch(r)
	}
	return err
}

// behind are the views that are to begin before the farthest place that one of them has reached. They disagree with it
// until the run has passed that place.
func behind(views viewSet, at []replicator.Checkpoint) (late viewSet) {
	farthest := slices.MaxFunc(at, func(a, b replicator.Checkpoint) int {
		return cmp.Compare(a.Position.Order, b.Position.Order)
	})
	for i, c := range at {
		if c.Position.Order < farthest.Position.Order {
			late = append(late, views[i])
		}
	}
	return late
}

// launchGrouped runs views of the configuration from their checkpoints, those together that can be.
func (c *composition) launchGrouped(checkpoints []replicator.Checkpoint) error {
	for _, group := range together(checkpoints) {
		if err := c.launchAt(group); err != nil {
			return err
		}
	}
	return nil
}

// stop tells every run to drain, and waits until all have ended.
func (c *composition) stop() {
	for _, r := range c.runs.all() {
		r.stop()
	}
	c.running.Wait()
}

// end drains a run and waits until it has ended. It stays one of the pipeline's until others supersede it.
func (c *composition) end(ctx context.Context, r *run) error {
	r.stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// supersede launches runs in the place of one that has ended.
func (c *composition) supersede(old *run, by ...*run) {
	c.follow(old, by...)
	c.runs.replace(old, by...)
	for _, r := range by {
		c.begin(r)
	}
}

// goOn lets views run together in the place of a run that has ended, from their checkpoints; they may be none.
func (c *composition) goOn(old *run, views viewSet, from []replicator.Checkpoint) error {
	if len(views) == 0 {
		c.supersede(old)
		return nil
	}
	r, err := c.newRun(views, checkpointsOf(views, from))
	if err == nil {
		if !old.agrees() {
			r.late = old.late
		}
		c.supersede(old, r)
	}
	return err
}

// follow makes of the rebuilds that had a run some for each of the runs that take its place. Views that are in none of
// them are no longer rebuilt: what is left of their fill is in their checkpoints.
func (c *composition) follow(old *run, by ...*run) {
	for _, whole := range c.rebuilds.all() {
		if whole.run != old || whole.unsettled != nil {
			continue
		}
		var parts []*rebuild
		for _, r := range by {
			if b := whole.within(r.views); len(b.views) > 0 {
				b.run = r
				parts = append(parts, b)
			}
		}
		c.rebuilds.replace(whole, parts...)
	}
}

// takeOut ends the runs that have any of the views and starts them again with the rest of theirs. It returns where the
// views stood.
func (c *composition) takeOut(ctx context.Context, views []*replicator.View) ([]replicator.Checkpoint, error) {
	var out []replicator.Checkpoint
	for _, r := range c.runs.all() {
		rest := r.views.without(views)
		if len(rest) == len(r.views) {
			continue
		}
		if err := c.end(ctx, r); err != nil {
			return nil, err
		}
		stood := r.progress.checkpoints()
		out = append(out, checkpointsOf(views, stood)...)
		if err := c.goOn(r, rest, stood); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// part ends runs of which only some views failed, and lets each group of their views go on by itself. Those that failed
// are tried again until somebody acts, and join the others when they have caught up.
func (c *composition) part(ctx context.Context) error {
	for _, r := range c.runs.all() {
		groups := r.parts()
		if groups == nil {
			continue
		}
		if err := c.end(ctx, r); err != nil {
			return err
		}
		stood := r.progress.checkpoints()
		var parted []*run
		for _, views := range groups {
			// Why, the run has logged, once for all of them.
			c.cfg.Log.Warn("views part from the others of their sink", "sink", c.cfg.Name,
				"views", viewSet(views).names())
			next, err := c.newRun(views, checkpointsOf(views, stood))
			if err != nil {
				return err
			}
			next.failed = time.Now()
			if !r.agrees() {
				next.late = r.late
			}
			parted = append(parted, next)
		}
		c.supersede(r, parted...)
	}
	return nil
}

// joinable is the lag below which a run has caught up. The last error must also be that long ago: by then it has shown
// again.
const joinable = 2 * time.Second

// ready reports whether a run has caught up, so that it can join others.
func (r *run) ready() bool {
	s := r.current()
	if s == nil || r.progress.current().Filling() || !r.calm(joinable) {
		return false
	}
	lag, known := s.lag()
	return known && lag < joinable
}

// join makes one of two runs that have caught up, if there are two. Shadows join like other views: what runs together
// is applied together, so a shadow that is swapped in after that agrees with the views beside it.
func (c *composition) join(ctx context.Context) error {
	ready := slices.DeleteFunc(c.runs.all(), func(r *run) bool { return !r.ready() })
	if len(ready) < 2 {
		return nil
	}
	a, b, main := ready[0], ready[1], c.main()
	a.stop() // both at once: neither waits for the other
	b.stop()
	if err := c.end(ctx, a); err != nil {
		return err
	}
	if err := c.end(ctx, b); err != nil {
		return err
	}
	union := c.cfg.inOrder(append(slices.Clone(a.views), b.views...))
	c.cfg.Log.Info("views join", "sink", c.cfg.Name, "views", union.names())
	next, err := c.newRun(union, checkpointsOf(union, append(a.progress.checkpoints(), b.progress.checkpoints()...)))
	if err != nil {
		return err
	}
	for _, r := range []*run{a, b} {
		if r != main {
			next.late = append(next.late, r.views...)
		}
	}
	c.follow(b, next)
	c.runs.replace(b)
	c.supersede(a, next)
	return nil
}

// near is how far apart in the log, in Orders (bytes of binlog), views may be and still start together: what the
// farther one has applied is repeated, which costs it a little and changes nothing.
const near = 16 << 20

// together groups checkpoints into those that can run together: at about the same place, and filled, or in one fill.
func together(checkpoints []replicator.Checkpoint) [][]replicator.Checkpoint {
	ordered := slices.Clone(checkpoints)
	slices.SortStableFunc(ordered, func(a, b replicator.Checkpoint) int {
		return cmp.Compare(a.Position.Order, b.Position.Order)
	})
	var groups [][]replicator.Checkpoint
	for _, c := range ordered {
		i := slices.IndexFunc(groups, func(g []replicator.Checkpoint) bool {
			lowest := g[0]
			sameFill := lowest.Filling() == c.Filling() && (!c.Filling() || lowest.Epoch == c.Epoch) &&
				lowest.FillFrom == c.FillFrom && lowest.Repair == c.Repair
			return sameFill && c.Position.Order-lowest.Position.Order < near
		})
		if i < 0 {
			groups = append(groups, []replicator.Checkpoint{c})
		} else {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

// checkpointsOf are those of some views, in their order.
func checkpointsOf(views []*replicator.View, all []replicator.Checkpoint) (of []replicator.Checkpoint) {
	for _, v := range views {
		i := slices.IndexFunc(all, func(c replicator.Checkpoint) bool { return c.View == v.Name })
		if i >= 0 {
			of = append(of, all[i])
		}
	}
	return of
}
