package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// rebuild is a rebuild in progress. Other goroutines read it, so it is never modified, but replaced as a whole. The
// exception is settleAt, which only the supervisor's goroutine uses.
type rebuild struct {
	views   viewSet
	shadows viewSet // the second copies of the views, which the rebuild fills; empty: the rebuild is in place
	frozen  viewSet // views without a run when the rebuild began: until the swap, readers see their old contents
	run     *run
	err     error // why the latest attempt to swap failed; nil: no attempt failed
	retryAt time.Time
	pause   fatalBackoff // after a Fatal error of a swap
	again   bool         // the shadows were filled a second time: see rebuilder.fillAgain

	// unsettled are the checkpoints of the shadows (second copies) while it is unknown whether a failed swap took
	// effect. Until that is known, no shadow runs.
	unsettled []replicator.Checkpoint
	settleAt  time.Time // when the sink is asked for the swap's outcome again
}

// within returns the part of a rebuild that fills any of the given views. A rebuild fills shadows (second copies) or,
// in place, the views themselves.
func (b *rebuild) within(some viewSet) *rebuild {
	made := b.shadows
	if len(made) == 0 {
		made = b.views
	}
	var of []*replicator.View
	for i, v := range made {
		if slices.Contains(some, v) {
			of = append(of, b.views[i])
		}
	}
	return b.of(of)
}

func (b *rebuild) of(some []*replicator.View) *rebuild {
	part := &rebuild{err: b.err, retryAt: b.retryAt, pause: b.pause, again: b.again}
	for i, v := range b.views {
		if !slices.Contains(some, v) {
			continue
		}
		part.views = append(part.views, v)
		if len(b.shadows) > 0 {
			part.shadows = append(part.shadows, b.shadows[i])
		}
		if slices.Contains(b.frozen, v) {
			part.frozen = append(part.frozen, v)
		}
	}
	return part
}

func (b *rebuild) failed(reason error) {
	b.err = reason
	switch {
	case replicator.IsFatal(reason):
		b.retryAt = time.Now().Add(b.pause.next(ended{}))
	case reason != nil:
		b.retryAt = time.Now().Add(retryPause)
	}
}

// stuck reports whether a rebuild can't continue until the operator acts, so that another rebuild may replace it.
func (b *rebuild) stuck() bool {
	state, _ := b.run.trouble()
	return b.unsettled == nil && (state == replicator.StateFailed || replicator.IsFatal(b.err))
}

// rebuilder begins rebuilds, and abandons rebuilds that can't continue. Only the supervisor's goroutine uses it.
type rebuilder struct {
	*shared
	composition *composition
}

func (r *rebuilder) begin(ctx context.Context, names []string, mode RebuildMode, from string) error {
	b := &rebuild{}
	for _, name := range names {
		v := r.cfg.view(name)
		switch {
		case v == nil:
			return fmt.Errorf("sink %s has no view %q", r.cfg.Name, name)
		case r.stopped.isPaused(v):
			return fmt.Errorf("view %s: %w", name, replicator.ErrPaused)
		case slices.Contains(b.views, v):
			continue
		}
		if old := r.rebuildOf(name); old != nil {
			if !old.stuck() {
				return fmt.Errorf("view %s: %w", name, replicator.ErrRebuilding)
			}
			if err := r.giveUp(ctx, old); err != nil {
				return err
			}
		}
		b.views = append(b.views, v)
	}
	if err := r.redefine(ctx, b.views); err != nil {
		return err
	}
	shadower, _ := r.cfg.Sink.(replicator.Shadower)
	if mode == InPlace || !r.cfg.swaps() {
		return r.inPlace(ctx, b, from)
	}
	b, err := r.keepForeign(ctx, shadower, b)
	if err != nil || len(b.views) == 0 {
		return err
	}
	err = r.forgetShadows(ctx, b.views)
	if err == nil {
		err = shadower.Discard(ctx, b.views)
	}
	if err != nil {
		return fmt.Errorf("sink %s: removing an earlier shadow: %w", r.cfg.Name, err)
	}
	for _, v := range b.views {
		b.shadows = append(b.shadows, shadower.Shadow(v))
	}
	at, err := r.knownPositions(ctx)
	if err != nil {
		return err
	}
	first, err := r.planner.fill(ctx, b.shadows, at)
	if err != nil {
		return err
	}
	return r.launch(b, b.shadows, eachAt(b.shadows, first))
}

// keepForeign begins to rebuild in place the views that can't be swapped, for example because their table has columns
// of another program. It returns the rebuild of the other views.
func (r *rebuilder) keepForeign(ctx context.Context, sink replicator.Shadower, b *rebuild) (*rebuild, error) {
	inPlace, bySwap := &rebuild{}, &rebuild{}
	for _, v := range b.views {
		foreign, err := sink.Foreign(ctx, v)
		if err != nil {
			return nil, r.cfg.ofSink(err)
		}
		if foreign == "" {
			bySwap.views = append(bySwap.views, v)
			continue
		}
		inPlace.views = append(inPlace.views, v)
		r.cfg.Log.Warn("the view is rebuilt in place, because it can't be swapped", "sink", r.cfg.Name,
			"view", v.Name, "reason", foreign)
	}
	if len(inPlace.views) == 0 {
		return bySwap, nil
	}
	return bySwap, r.inPlace(ctx, inPlace, "")
}

// giveUp abandons a rebuild that can't continue, so that a new one can replace it. If the sink's user may not remove
// the abandoned shadows (second copies), they stay until the next rebuild.
func (r *rebuilder) giveUp(ctx context.Context, b *rebuild) error {
	if len(b.shadows) == 0 { // in place: the views' run keeps trying until a new rebuild takes the views out of it
		r.rebuilds.replace(b)
		return nil
	}
	if _, err := r.composition.takeOut(ctx, b.shadows); err != nil {
		return err
	}
	r.rebuilds.replace(b)
	if err := r.forgetShadows(ctx, b.views); err != nil {
		return fmt.Errorf("sink %s: forgetting a rebuild that failed: %w", r.cfg.Name, err)
	}
	if err := r.cfg.Sink.(replicator.Shadower).Discard(ctx, b.views); err != nil {
		r.cfg.Log.Warn("the remains of a failed rebuild could not be removed, and stay until the next rebuild",
			"sink", r.cfg.Name, "views", b.views.names(), "error", err)
	}
	for _, v := range b.shadows {
		if err := r.cfg.Sink.Forget(ctx, v.Name); err != nil {
			return fmt.Errorf("sink %s: forgetting a rebuild that failed: %w", r.cfg.Name, err)
		}
	}
	return nil
}

func (r *rebuilder) forgetShadows(ctx context.Context, views viewSet) error {
	for _, v := range views {
		if err := forgetShadow(ctx, r.cfg.Store, v); err != nil {
			return err
		}
	}
	return nil
}

func (r *rebuilder) launch(b *rebuild, views viewSet, from []replicator.Checkpoint) (err error) {
	if b.run, err = r.composition.newRun(views, from); err != nil {
		return err
	}
	for _, v := range b.views {
		if len(b.shadows) > 0 && r.runOf(v.Name) == nil && !r.stopped.isPaused(v) {
			b.frozen = append(b.frozen, v)
		}
	}
	r.rebuilds.add(b)
	r.composition.launch(b.run)
	return nil
}

// inPlace rebuilds views by writing every row of the source over their contents. Meanwhile, they run separately from
// the other views.
func (r *rebuilder) inPlace(ctx context.Context, b *rebuild, from string) error {
	first, err := r.fillOver(ctx, b.views, from)
	if err != nil {
		return err
	}
	taken, err := r.composition.takeOut(ctx, b.views)
	if err != nil {
		return err
	}
	r.goOnFrom(ctx, &first, b.views, taken)
	for _, v := range b.views {
		r.stopped.setFailed(v.Name, nil)
	}
	return r.launch(b, b.views, eachAt(b.views, first))
}

// fillAgain fills shadows (second copies of views) a second time, because rows changed during the first fill and the
// log does not list these changes. Otherwise a swap would show older rows than the live views, which were repaired.
func (r *rebuilder) fillAgain(ctx context.Context, b *rebuild) error {
	next := b.of(b.views)
	first, err := r.fillOver(ctx, b.shadows, "")
	if err != nil {
		next.run = b.run
		next.failed(err)
		r.rebuilds.replace(b, next)
		return nil
	}
	r.cfg.Log.Info("rows changed during a rebuild, and the binlog doesn't say which rows. So the rebuild scans the "+
		"tables a second time", "sink", r.cfg.Name, "views", b.views.names())
	r.goOnFrom(ctx, &first, b.shadows, checkpointsOf(b.shadows, b.run.progress.checkpoints()))
	if next.run, err = r.composition.newRun(b.shadows, eachAt(b.shadows, first)); err != nil {
		return err
	}
	next.again = true
	r.rebuilds.replace(b, next) // the list must never lack the rebuild: waiting callers would think that it has ended
	if _, err := r.composition.takeOut(ctx, b.shadows); err != nil {
		return err
	}
	r.composition.launch(next.run)
	return nil
}

// fillOver returns the checkpoint of a fill that writes every row over the views' contents, from an offset on.
func (r *rebuilder) fillOver(ctx context.Context, views viewSet, from string) (first replicator.Checkpoint, err error) {
	at, err := r.knownPositions(ctx)
	if err != nil {
		return first, err
	}
	if first, err = r.planner.fill(ctx, views, at); err != nil {
		return first, err
	}
	first.Repair = true
	for table := range first.Fill {
		first.Fill[table] = replicator.Progress{After: from}
	}
	return first, nil
}

// goOnFrom makes a fill over existing contents read the log from where the views were, not from the log's end.
// Otherwise the sink would miss deletes in between and keep the deleted versions. Scanned rows of lower versions would
// then be stale.
func (r *rebuilder) goOnFrom(
	ctx context.Context, first *replicator.Checkpoint, views viewSet, stood []replicator.Checkpoint,
) {
	first.Read = first.Position
	for _, c := range stood {
		if c.Position.Order < first.Position.Order && r.readable(ctx, views, c.Position) {
			first.Position = c.Position
		}
	}
}

func (r *rebuilder) readable(ctx context.Context, views []*replicator.View, at replicator.Position) bool {
	source, err := r.cfg.sourceOf(views)
	if err == nil {
		var reader replicator.Reader
		if reader, err = source.Open(ctx, []replicator.Position{at}, replicator.TablesOf(views)...); err == nil {
			err = reader.Close()
		}
	}
	if err != nil {
		r.cfg.Log.Warn("the source's log can't be read from the position that the views had reached, so the rebuild "+
			"in place begins at the log's current end", "sink", r.cfg.Name, "reason", err)
	}
	return err == nil
}

func (r *rebuilder) knownPositions(ctx context.Context) ([]replicator.Position, error) {
	known, err := r.planner.remember(ctx)
	if err != nil {
		return nil, err
	}
	at := known.positions()
	for _, other := range r.runs.all() {
		at = append(at, other.progress.current().Position)
	}
	return at, nil
}

// redefine gives views with redefined tables their new fingerprints (hashes of the definitions of a view and its
// tables). It takes these views out of their runs, because a fingerprint may change only while no run has the view. The
// views show as failed until they are rebuilt.
func (r *rebuilder) redefine(ctx context.Context, views []*replicator.View) error {
	now, err := r.planner.definitions.current(ctx, views)
	if err != nil {
		return err
	}
	reasons := make([]error, len(views))
	var changed []*replicator.View
	for i, v := range views {
		if reasons[i] = replicator.Redefined(v, v.Fingerprint, now[i]); reasons[i] != nil {
			changed = append(changed, v)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := r.composition.takeOut(ctx, changed); err != nil {
		return err
	}
	for i, v := range views {
		if reasons[i] != nil {
			r.planner.definitions.set(v, now[i])
			r.stopped.setFailed(v.Name, reasons[i])
		}
	}
	return nil
}
