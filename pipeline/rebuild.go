package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// RebuildMode says how a view is made again from offset zero.
type RebuildMode int

const (
	// BySwap fills a shadow while the live view is kept up, and swaps it in when it has caught up. A view whose target has
	// what is not the view's is rebuilt in place, which keeps that.
	BySwap RebuildMode = iota
	// InPlace puts every row into the live view, whatever it is believed to hold, and then looks at whatever was not
	// confirmed.
	InPlace
)

// rebuild is one that is under way.
type rebuild struct {
	views   []*replicator.View
	shadows []*replicator.View // none: in place
	run     *run
	err     error     // why the swap failed, until it is made; nil: it did not
	retryAt time.Time // after a swap that failed

	// unsettled are the shadows' checkpoints after a swap that failed, until it is known what became of it; no shadow runs
	// then.
	unsettled []replicator.Checkpoint
	settleAt  time.Time // when that is asked for again
}

// ErrRebuilding: the view is being rebuilt already.
var ErrRebuilding = errors.New("it is being rebuilt already")

// Rebuild begins to make views again from offset zero, all in one scan, while the tail goes on; Status tells the rest.
// It is resumed after a crash. A sink without shadows is rebuilt in place.
//
// from is where the scan of each table begins: a Chunk's Next, "" for offset zero. Only a rebuild in place can begin
// later: what stands before is kept as it is, as far as the source confirms it.
func (p *Pipeline) Rebuild(ctx context.Context, names []string, mode RebuildMode, from string) error {
	return p.ask(ctx, func(ctx context.Context) error { return p.beginRebuild(ctx, names, mode, from) })
}

func (p *Pipeline) beginRebuild(ctx context.Context, names []string, mode RebuildMode, from string) error {
	b := &rebuild{}
	for _, name := range names {
		v := p.view(name)
		switch {
		case v == nil:
			return fmt.Errorf("sink %s keeps no view %q", p.Name, name)
		case p.isPaused(v):
			return fmt.Errorf("view %s: %w", name, ErrPaused)
		case slices.Contains(b.views, v):
			continue
		}
		if old := p.rebuildOf(v); old != nil {
			if !old.stuck() {
				return fmt.Errorf("view %s: %w", name, ErrRebuilding)
			}
			if err := p.abandon(ctx, old); err != nil {
				return err
			}
		}
		b.views = append(b.views, v)
	}
	if err := p.redefine(ctx, b.views); err != nil {
		return err
	}
	shadower, ok := p.Sink.(replicator.Shadower)
	if !ok || mode == InPlace {
		return p.rebuildInPlace(ctx, b, from)
	}
	b, err := p.keepForeign(ctx, shadower, b)
	if err != nil || len(b.views) == 0 {
		return err
	}
	if err := shadower.Discard(ctx, b.views); err != nil {
		return fmt.Errorf("sink %s: removing an earlier shadow: %w", p.Name, err)
	}
	for _, v := range b.views {
		b.shadows = append(b.shadows, shadower.Shadow(v))
	}
	at, err := p.everKnown(ctx)
	if err != nil {
		return err
	}
	fresh, err := p.anew(ctx, b.shadows, at)
	if err != nil {
		return err
	}
	return p.launchShadows(b, eachAt(b.shadows, fresh))
}

// keepForeign begins to rebuild in place those views of a rebuild that a swap would lose something by, and returns the
// rebuild of the others.
func (p *Pipeline) keepForeign(ctx context.Context, sink replicator.Shadower, b *rebuild) (*rebuild, error) {
	inPlace, bySwap := &rebuild{}, &rebuild{}
	for _, v := range b.views {
		foreign, err := sink.Foreign(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", p.Name, err)
		}
		if foreign == "" {
			bySwap.views = append(bySwap.views, v)
			continue
		}
		inPlace.views = append(inPlace.views, v)
		p.Log.Warn("the view is rebuilt in place: a swap would lose what is not the view's", "sink", p.Name, "view", v.Name, "reason", foreign)
	}
	if len(inPlace.views) == 0 {
		return bySwap, nil
	}
	return bySwap, p.rebuildInPlace(ctx, inPlace, "")
}

// abandon ends a rebuild that can't go on, so that another one can take its place: in place, where a right is missing
// that shadows need, or from another offset. Where that very right is needed to remove the shadows, these stay until
// the next rebuild that makes some.
func (p *Pipeline) abandon(ctx context.Context, b *rebuild) error {
	if len(b.shadows) == 0 { // its run goes on trying until the views are taken out of it
		p.dropRebuild(b)
		return nil
	}
	if err := p.end(ctx, b.run); err != nil {
		return err
	}
	p.dropRebuild(b)
	if err := p.Sink.(replicator.Shadower).Discard(ctx, b.views); err != nil {
		p.Log.Warn("what is left of a rebuild that failed can't be removed", "sink", p.Name, "views", names(b.views), "error", err)
	}
	for _, v := range b.shadows {
		if err := errors.Join(p.Store.Forget(ctx, v.Name), p.Sink.Forget(ctx, v.Name)); err != nil {
			return fmt.Errorf("sink %s: forgetting a rebuild that failed: %w", p.Name, err)
		}
	}
	return nil
}

// launchShadows runs the shadows of a rebuild from their checkpoints.
func (p *Pipeline) launchShadows(b *rebuild, from []replicator.Checkpoint) error {
	p.mu.Lock()
	if !slices.Contains(p.rebuilds, b) {
		p.rebuilds = append(p.rebuilds, b)
	}
	p.mu.Unlock()
	r, err := newRun(p, from)
	if err != nil {
		p.dropRebuild(b)
		return err
	}
	r.shadow = true
	p.launchRebuild(b, r)
	return nil
}

// rebuildInPlace takes the views out of their runs and fills them by themselves, writing every row.
func (p *Pipeline) rebuildInPlace(ctx context.Context, b *rebuild, from string) error {
	at, err := p.everKnown(ctx)
	if err != nil {
		return err
	}
	fresh, err := p.anew(ctx, b.views, at)
	if err != nil {
		return err
	}
	fresh.Repair = true
	for table := range fresh.Fill {
		fresh.Fill[table] = replicator.Progress{After: from}
	}
	taken, err := p.takeOut(ctx, b.views)
	if err != nil {
		return err
	}
	// The tail goes on where the views stood, not at the end: their states hold versions whose deletes lie in between, and
	// a scan's rows are older than those. The scan waits until the tail has come to the end (session.fill). Where that
	// can't be read any more, the sweep looks at all that the scan does not confirm.
	for _, c := range taken {
		if c.Position.Order < fresh.Position.Order && p.readable(ctx, c.Position) {
			fresh.Position = c.Position
		}
	}
	p.mu.Lock()
	for _, v := range b.views {
		delete(p.failed, v.Name)
	}
	p.mu.Unlock()
	r, err := newRun(p, eachAt(b.views, fresh))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.rebuilds = append(p.rebuilds, b)
	p.mu.Unlock()
	p.launchRebuild(b, r)
	return nil
}

// readable reports whether the source can be read from a position on.
func (p *Pipeline) readable(ctx context.Context, at replicator.Position) bool {
	r, err := p.Source.Open(ctx, []replicator.Position{at})
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		p.Log.Warn("a rebuild in place begins at the source's present end", "sink", p.Name, "reason", err)
	}
	return err == nil
}

// launchRebuild launches the run of a rebuild.
func (p *Pipeline) launchRebuild(b *rebuild, r *run) {
	p.mu.Lock()
	b.run = r
	p.mu.Unlock()
	p.launch(r)
}

// dropRebuild ends a rebuild, done or not.
func (p *Pipeline) dropRebuild(b *rebuild) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rebuilds = slices.DeleteFunc(p.rebuilds, func(other *rebuild) bool { return other == b })
}

// keptUp reports whether a run keeps a view.
func (p *Pipeline) keptUp(v *replicator.View) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.runs, func(r *run) bool { return slices.Contains(r.views, v) })
}

// takeOut ends the runs that have any of the views and starts them again with the rest of theirs. It returns where the
// views stood.
func (p *Pipeline) takeOut(ctx context.Context, views []*replicator.View) ([]replicator.Checkpoint, error) {
	p.mu.Lock()
	runs := slices.Clone(p.runs)
	p.mu.Unlock()
	var out []replicator.Checkpoint
	for _, r := range runs {
		if !slices.ContainsFunc(r.views, func(v *replicator.View) bool { return slices.Contains(views, v) }) {
			continue
		}
		if err := p.end(ctx, r); err != nil {
			return nil, err
		}
		var rest []replicator.Checkpoint
		at := r.stood()
		for i, v := range r.views {
			if slices.Contains(views, v) {
				out = append(out, at[i])
			} else {
				rest = append(rest, at[i])
			}
		}
		var left *run
		if len(rest) > 0 {
			var err error
			if left, err = newRun(p, rest); err != nil {
				return nil, err
			}
			p.launch(left)
		}
		p.leaveRebuild(views, r, left)
	}
	return out, nil
}

// leaveRebuild takes views out of the rebuild in place whose run they were taken out of; left has the rest of them.
// What of the fill is to be done yet is in their checkpoints.
func (p *Pipeline) leaveRebuild(views []*replicator.View, old, left *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.rebuilds {
		if b.run == old {
			b.run = left
			b.views = slices.DeleteFunc(slices.Clone(b.views), func(v *replicator.View) bool { return slices.Contains(views, v) })
		}
	}
	p.rebuilds = slices.DeleteFunc(p.rebuilds, func(b *rebuild) bool { return b.run == nil })
}

// rebuildOf is the rebuild of a view; nil if there is none.
func (p *Pipeline) rebuildOf(v *replicator.View) *rebuild {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.rebuilds {
		if slices.Contains(b.views, v) {
			return b
		}
	}
	return nil
}

// everKnown are all positions that anything remembers: of the runs, and of views that don't run.
func (p *Pipeline) everKnown(ctx context.Context) ([]replicator.Position, error) {
	saved, marks, err := p.remembered(ctx)
	if err != nil {
		return nil, err
	}
	at := known(saved, marks, p.Source.Name())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		at = append(at, r.position())
	}
	return at, nil
}

// finishRebuilds ends the rebuilds whose fill is complete: those in place are done, shadows that have caught up are
// swapped in.
func (p *Pipeline) finishRebuilds(ctx context.Context) error {
	p.mu.Lock()
	rebuilds := slices.Clone(p.rebuilds)
	p.mu.Unlock()
	for _, b := range rebuilds {
		done, err := p.finish(ctx, b)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		p.dropRebuild(b)
		p.Log.Info("rebuilt", "sink", p.Name, "views", names(b.views))
	}
	return nil
}

// finish takes a rebuild to its end, if it is so far, and reports whether it is.
func (p *Pipeline) finish(ctx context.Context, b *rebuild) (bool, error) {
	switch {
	case b.run.filling():
		return false, nil
	case len(b.shadows) == 0:
		return true, nil
	case b.unsettled != nil:
		return p.settleSwap(ctx, b)
	case slices.ContainsFunc(b.views, p.isPaused):
		return false, nil // nothing is written to it, and a swap is more than that
	}
	s := b.run.current()
	if s == nil || time.Now().Before(b.retryAt) {
		return false, nil
	}
	if lag, known := s.lag(); !known || lag > joinable {
		return false, nil
	}
	return p.swap(ctx, b)
}

func (p *Pipeline) launchAt(checkpoints []replicator.Checkpoint) error {
	if len(checkpoints) == 0 {
		return nil
	}
	r, err := newRun(p, checkpoints)
	if err == nil {
		p.launch(r)
	}
	return err
}

// retryPause is how long it takes until something is tried again that a sink or the store refused between two sessions.
const retryPause = 10 * time.Second

// fatalPause is how long it takes until that is tried again which a person has to mend.
const fatalPause = 30 * time.Second

func names(views []*replicator.View) []string {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Name
	}
	return names
}

// fillOf is the progress of a fill of views at its beginning.
func fillOf(views []*replicator.View) map[string]replicator.Progress {
	fill := map[string]replicator.Progress{}
	for _, table := range replicator.TablesOf(views) {
		fill[table] = replicator.Progress{}
	}
	return fill
}
