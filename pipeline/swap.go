package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// swap stops the live views, lets the shadows pass the place where those stopped, so that no reader sees a step back,
// and puts the shadows in their place. It reports whether it did; where the sink fails the live views go on, and it
// tries again later.
func (p *Pipeline) swap(ctx context.Context, b *rebuild) (bool, error) {
	live, err := p.takeOut(ctx, b.views)
	if err != nil {
		return false, err
	}
	reached := p.pass(ctx, b.run, live)
	if err := p.end(ctx, b.run); err != nil {
		return false, err
	}
	checkpoints := b.run.stood()
	if reached == nil {
		reached = p.Sink.(replicator.Shadower).Swap(ctx, p.Source.Name(), b.views)
	}
	if reached == nil {
		reached = p.swapped(ctx, b.views, checkpoints)
	}
	if reached == nil {
		return true, nil
	}
	p.Log.Error("rebuilt views can't be swapped in yet", "sink", p.Name, "views", names(b.views), "error", reached)
	return false, errors.Join(p.setBack(b, checkpoints, reached), p.launchAt(live))
}

// setBack lets a rebuild go on whose swap failed. Views that it failed for by themselves part from it, so that the
// others needn't wait for them: their shadows are what they were. Of the others it has to be found out.
func (p *Pipeline) setBack(b *rebuild, shadows []replicator.Checkpoint, reason error) error {
	p.dropRebuild(b)
	part := func(of []*replicator.View, reason error) (*rebuild, []replicator.Checkpoint) {
		part, at := &rebuild{run: b.run, err: reason}, []replicator.Checkpoint(nil)
		for i, v := range b.views {
			if slices.Contains(of, v) {
				part.views, part.shadows, at = append(part.views, v), append(part.shadows, b.shadows[i]), append(at, shadows[i])
			}
		}
		part.retryLater()
		return part, at
	}
	groups, others := replicator.Troubled(b.views, reason)
	rest := reason
	if groups != nil {
		rest = nil
	} else if replicator.IsOfViews(reason) {
		groups, others = [][]*replicator.View{b.views}, nil
	}
	for _, views := range groups {
		if err := p.launchShadows(part(views, reason)); err != nil {
			return err
		}
	}
	if len(others) > 0 {
		left, at := part(others, rest)
		left.unsettled = at
		p.mu.Lock()
		p.rebuilds = append(p.rebuilds, left)
		p.mu.Unlock()
	}
	return nil
}

// retryLater lets a rebuild wait before its next swap, where the one before failed.
func (b *rebuild) retryLater() {
	switch {
	case replicator.IsFatal(b.err):
		b.retryAt = time.Now().Add(fatalPause)
	case b.err != nil:
		b.retryAt = time.Now().Add(retryPause)
	}
}

// stuck reports whether a rebuild can't go on until somebody acts, so that another one may take its place.
func (b *rebuild) stuck() bool {
	state, _ := b.run.trouble()
	return b.unsettled == nil && (state == replicator.StateFailed || replicator.IsFatal(b.err))
}

// settleSwap finds out what became of a swap that failed: the sink may have made it all the same, or whoever opened it
// since may have completed it. A shadow without a mark is in its view's place. To run it again would begin another one,
// empty and taken for filled. It reports whether all are in their places; those that are not go on.
func (p *Pipeline) settleSwap(ctx context.Context, b *rebuild) (bool, error) {
	if time.Now().Before(b.settleAt) {
		return false, nil
	}
	b.settleAt = time.Now().Add(retryPause)
	marks, err := p.Sink.Marks(ctx, p.Source.Name())
	if err != nil {
		p.Log.Error("what became of a swap is not known yet", "sink", p.Name, "views", names(b.views), "error", err)
		return false, nil
	}
	var views, shadows, done []*replicator.View
	var left, moved []replicator.Checkpoint
	for i, c := range b.unsettled {
		if _, m := find(nil, marks, c.View, c.Source); m != nil {
			views, shadows, left = append(views, b.views[i]), append(shadows, b.shadows[i]), append(left, c)
		} else {
			done, moved = append(done, b.views[i]), append(moved, c)
		}
	}
	if err := p.swapped(ctx, done, moved); err != nil {
		p.Log.Error("rebuilt views were swapped in, and that can't be saved yet", "sink", p.Name, "views", names(done), "error", err)
		return false, nil
	}
	if len(left) == 0 {
		return true, nil
	}
	p.mu.Lock()
	b.views, b.shadows, b.unsettled = views, shadows, nil
	p.mu.Unlock()
	b.retryLater()
	return false, p.launchShadows(b, left)
}

// swapped ends the rebuild of views that have been swapped in, at the checkpoints of their shadows. Those that run
// already, from where they stood before the swap, go on there: what they repeat is stale.
func (p *Pipeline) swapped(ctx context.Context, views []*replicator.View, shadows []replicator.Checkpoint) error {
	var at []replicator.Checkpoint
	for i, v := range views {
		if !p.keptUp(v) {
			c := shadows[i]
			c.View = v.Name
			at = append(at, c)
		}
	}
	if len(at) > 0 { // else the runs save
		if err := p.Store.Save(ctx, at); err != nil {
			return fmt.Errorf("saving the checkpoints of rebuilt views: %w", err)
		}
	}
	for _, v := range views {
		if err := p.inherit(ctx, v); err != nil {
			return err
		}
	}
	p.mu.Lock()
	for _, v := range views {
		delete(p.failed, v.Name)
	}
	running := at[:0]
	for _, c := range at {
		if _, paused := p.paused[c.View]; paused {
			p.paused[c.View] = c
		} else {
			running = append(running, c)
		}
	}
	p.mu.Unlock()
	return p.launchAt(running)
}

// inherit makes the dead letters of a view's shadow those of the view, and removes the shadow's checkpoint, which says
// until then that this has to be done.
func (p *Pipeline) inherit(ctx context.Context, v *replicator.View) error {
	shadow := v.Name + replicator.ShadowSuffix
	gone, err := p.takeLetters(ctx, v, shadow)
	if err == nil && len(gone) > 0 {
		_, err = p.Store.Drop(ctx, gone)
	}
	if err == nil {
		err = p.Store.Forget(ctx, shadow)
	}
	if err != nil {
		return fmt.Errorf("view %s: taking over what its rebuild left in the store: %w", v.Name, err)
	}
	return nil
}

// lettersAtOnce is how many bytes of dead letters are read before they are buried.
const lettersAtOnce = 1 << 20

// takeLetters buries the dead letters of a view's shadow as the view's own. It returns the ids of those that are
// obsolete: the shadow's, and the view's of cells that the shadow has none of.
func (p *Pipeline) takeLetters(ctx context.Context, v *replicator.View, shadow string) (gone []string, err error) {
	cells := map[replicator.Cell]bool{}
	var some []replicator.DeadLetter // each call of Bury waits for a disk
	size := 0
	bury := func() error {
		if len(some) == 0 {
			return nil
		}
		err := p.Store.Bury(ctx, some)
		some, size = nil, 0
		return err
	}
	for l, err := range p.Store.List(ctx, shadow) {
		if err != nil {
			return nil, err
		}
		gone = append(gone, l.ID)
		cells[l.Cell] = true
		l.View, l.ID = v.Name, ""
		if some, size = append(some, l), size+len(l.Raw)+replicator.RowOverhead; size > lettersAtOnce {
			if err := bury(); err != nil {
				return nil, err
			}
		}
	}
	if err := bury(); err != nil {
		return nil, err
	}
	for l, err := range p.Store.List(ctx, v.Name) {
		if err != nil {
			return nil, err
		}
		if !cells[l.Cell] {
			gone = append(gone, l.ID)
		}
	}
	return gone, nil
}

// passTime is how long shadows may take to pass the place where the live views were stopped.
const passTime = 30 * time.Second

// pass waits until a run has applied everything up to where the live views stopped.
func (p *Pipeline) pass(ctx context.Context, r *run, live []replicator.Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	for _, c := range live {
		for r.position().Order < c.Position.Order {
			if s := r.current(); s != nil {
				if err := s.advance(ctx, saveNothing); err != nil {
					return err
				}
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("the rebuilt views did not reach the live ones within %s", passTime)
			}
		}
	}
	return nil
}
