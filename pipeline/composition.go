package pipeline

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"replicator"
)

// composition decides which views run together, that is, share a log reader. Only the supervisor's goroutine uses it.
type composition struct {
	*shared
	lifetime context.Context // once it is done, the runs end without applying what is pending
	running  sync.WaitGroup
}

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
	c.running.Go(func() { _ = r.loop(c.lifetime) }) // an error only says that c.lifetime is done
}

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

// behind returns the views that begin at a lower position than the view with the highest one. Until the run has passed
// the highest position, the returned views may show older contents than that view.
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

func (c *composition) launchGrouped(checkpoints []replicator.Checkpoint) error {
	for _, group := range together(checkpoints) {
		if err := c.launchAt(group); err != nil {
			return err
		}
	}
	return nil
}

func (c *composition) stop() {
	for _, r := range c.runs.all() {
		r.stop()
	}
	c.running.Wait()
}

// end stops a run and waits until it has applied its pending changes.
func (c *composition) end(ctx context.Context, r *run) error {
	r.stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *composition) supersede(old *run, by ...*run) {
	c.follow(old, by...)
	c.runs.replace(old, by...)
	for _, r := range by {
		c.begin(r)
	}
}

// goOn replaces an ended run by a run of the given views from their checkpoints. If no views are given, it only removes
// the ended run.
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

// follow splits the rebuilds of an ended run among the runs that replace it. A view that is in none of these runs is no
// longer rebuilt, but its checkpoint keeps the progress of the fill.
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

// takeOut ends the runs that have any of the given views, and runs the other views of these runs again. It returns the
// checkpoints of the given views.
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

// part ends runs in which only some views failed, and runs each group of their views separately. The failed views are
// retried, and join the others when they have caught up.
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
			c.cfg.Log.Warn("views now run separately, after an error of some views of their sink. They join the "+
				"others when they have caught up", "sink", c.cfg.Name, "views", viewSet(views).names())
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

// joinable is the lag below which a run has caught up. The run's last error must also be at least that old: a
// lasting error would have occurred again by then.
const joinable = 2 * time.Second

func (r *run) ready() bool {
	s := r.current()
	if s == nil || r.progress.current().Filling() || !r.calm(joinable) {
		return false
	}
	lag, known := s.lag()
	return known && lag < joinable
}

// join makes one run of two runs that have caught up, if there are two. Shadows (second copies that rebuilds fill) join
// the live views, so that both agree at the swap.
func (c *composition) join(ctx context.Context) error {
	ready := slices.DeleteFunc(c.runs.all(), func(r *run) bool { return !r.ready() })
	if len(ready) < 2 {
		return nil
	}
	a, b, main := ready[0], ready[1], c.main()
	a.stop() // stop both runs before waiting for either, so that they drain at the same time
	b.stop()
	if err := c.end(ctx, a); err != nil {
		return err
	}
	if err := c.end(ctx, b); err != nil {
		return err
	}
	union := c.cfg.inOrder(append(slices.Clone(a.views), b.views...))
	c.cfg.Log.Info("views now run together", "sink", c.cfg.Name, "views", union.names())
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

// near is how far apart in the log (in bytes of binlog) the positions of views may be for the views to start together.
// All views start at the lowest position, so views with a higher position repeat changes that they have applied.
const near = 16 << 20

// together groups checkpoints whose views can run together. The positions in a group are similar, and its views are all
// filled or all in the same fill.
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

func checkpointsOf(views []*replicator.View, all []replicator.Checkpoint) (of []replicator.Checkpoint) {
	for _, v := range views {
		i := slices.IndexFunc(all, func(c replicator.Checkpoint) bool { return c.View == v.Name })
		if i >= 0 {
			of = append(of, all[i])
		}
	}
	return of
}
