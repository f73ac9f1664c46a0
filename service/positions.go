package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

// Positions changes the saved positions of views. It locks the store, so that no process can run at the same time.
type Positions struct {
	Setup
	names []string // names of views; empty: all views
	store replicator.Store
	saved []replicator.Checkpoint
}

// OpenPositions locks the store to change the positions of the named views. Without names, it is for all views.
func OpenPositions(ctx context.Context, setup Setup, names []string) (*Positions, error) {
	if err := Define(setup.Config); err != nil {
		return nil, err
	}
	p := &Positions{Setup: setup, names: names}
	var err error
	if p.store, err = openStore(ctx, p.Config); err != nil {
		return nil, err
	}
	if p.saved, err = p.store.Checkpoints(ctx); err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	return p, nil
}

// Close unlocks the store.
func (p *Positions) Close() error { return p.store.Close() }

// eachSink opens each sink that has some of the named views, and calls do with these views.
func (p *Positions) eachSink(do func(sink replicator.Sink, views []*replicator.View) error) error {
	for i := range p.Config.Sinks {
		sink := &p.Config.Sinks[i]
		var views []*replicator.View
		for _, v := range ViewsOf(p.Config, sink.Name) {
			if len(p.names) == 0 || slices.Contains(p.names, v.Name) {
				views = append(views, v)
			}
		}
		if len(views) == 0 {
			continue
		}
		opened, err := p.sink(sink.Name)
		if err != nil {
			return err
		}
		if err := errors.Join(do(opened, views), opened.Close()); err != nil {
			return reaching("sink "+sink.Name, err)
		}
	}
	return nil
}

// Set sets the views' position in one source's log, both in the sinks and in the store. source is the shard's name, or
// "" without shards.
func (p *Positions) Set(ctx context.Context, source, pos string) error {
	if err := setsPositions(p.Config, "set"); err != nil {
		return err
	}
	if err := KnowsSource(p.Config, source); err != nil {
		return InvalidError{err}
	}
	i := slices.IndexFunc(p.Config.Source.Shards, func(s config.Shard) bool { return s.Name == source })
	shard := p.Config.Source.Shards[i]
	return p.eachSink(func(sink replicator.Sink, views []*replicator.View) error {
		marks, err := sink.Marks(ctx, shard.Name)
		if err != nil {
			return err
		}
		at, err := p.at(ctx, shard, pos, marks)
		if err != nil {
			return err
		}
		if err := p.mark(ctx, sink, shard, views, at); err != nil {
			return err
		}
		return p.store.Save(ctx, p.checkpoints(shard, views, at))
	})
}

// at resolves the requested position at the source. If the source has moved to another server or was reset, the result
// is higher than all positions that the store and the sink have from the former log.
func (p *Positions) at(ctx context.Context, shard config.Shard, pos string,
	marks []replicator.Mark) (replicator.Position, error) {
	tables, err := tablesOf(p.Config, shard, p.Config.Views)
	if err != nil {
		return replicator.Position{}, err
	}
	source, err := p.source(shard, tables)
	if err != nil {
		return replicator.Position{}, InvalidError{err}
	}
	var known []replicator.Position
	for _, c := range p.saved {
		if c.Source == shard.Name {
			known = append(known, c.Position)
		}
	}
	for _, m := range marks {
		known = append(known, m.Position)
	}
	at, err := source.At(ctx, pos, known)
	if errors.Is(err, canal.ErrFence) {
		err = InvalidError{fmt.Errorf("--pos: %w", err)}
	}
	return at, errors.Join(reaching(sourceNamed(shard.Name), err), source.Close())
}

// Reset makes the views start again. It doesn't remove their marks (the checkpoints that the sink keeps) but changes
// them, because a checkpoint in the store without a mark looks as if the sink had lost the view.
func (p *Positions) Reset(ctx context.Context) error {
	if err := setsPositions(p.Config, "reset"); err != nil {
		return err
	}
	return p.forget(ctx, "resetting", func(sink replicator.Sink, v *replicator.View) error {
		return p.unmark(ctx, sink, v)
	})
}

// unmark makes a view start again, by changing its mark (the checkpoint that the sink keeps). The states of the view's
// cells stay, unless the sink lost the view or has another definition of it. Then unmark first removes the view from
// the sink.
func (p *Positions) unmark(ctx context.Context, sink replicator.Sink, v *replicator.View) error {
	var known []viewProgress
	intact := true
	for _, shard := range p.Config.Source.Shards {
		at, same, err := p.progressOf(ctx, sink, shard, v)
		if err != nil {
			return err
		}
		if !at.Position.IsZero() {
			known, intact = append(known, at), intact && same
		}
	}
	if !intact || len(known) == 0 {
		if err := p.forgetLost(ctx, sink, v, known); err != nil {
			return err
		}
	}
	for _, at := range known {
		target, err := sink.Open(ctx, at.shard, at.views)
		if errors.Is(err, replicator.ErrSinkLost) { // this Open has removed the view, so the next Open succeeds
			intact = false
			target, err = sink.Open(ctx, at.shard, at.views)
		}
		if err != nil {
			return fmt.Errorf("%w. `replicator checkpoint forget %s` works without opening the view", err, v.Name)
		}
		next := at.Anew()
		unfilled := at.Filling() && !at.Repair // the view's fill is incomplete, maybe because of an earlier reset
		next.Repair = intact && (p.Config.Source.Start == "snapshot" || !unfilled)
		if err := target.Mark(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// forgetLost removes a view's state from those shards of a sink that lost the view or have it with another definition.
// The other shards keep the view, so readers still see it there. If the sink has no shards, or no position of the view
// is known, forgetLost removes the view's state from the whole sink.
func (p *Positions) forgetLost(ctx context.Context, sink replicator.Sink, v *replicator.View,
	known []viewProgress) error {
	parted, ok := sink.(replicator.Parted)
	if !ok || len(known) == 0 {
		return sink.Forget(ctx, v.Name)
	}
	return parted.ForgetLost(ctx, known[0].views[0], p.Config.Source.ShardNames())
}

// viewProgress is a view's saved progress with one shard of the source.
type viewProgress struct {
	replicator.Standing
	shard string
	views []*replicator.View // only this view, with the fingerprint that the sink knows
}

// progressOf returns the view's saved progress. same reports whether the sink has the view with the same definition.
func (p *Positions) progressOf(ctx context.Context, sink replicator.Sink, shard config.Shard,
	v *replicator.View) (at viewProgress, same bool, err error) {
	at.shard = shard.Name
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return at, false, err
	}
	marked := slices.ContainsFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
	for _, c := range p.saved {
		if c.View == v.Name && c.Source == shard.Name {
			at.Standing = c.Standing
			// If one shard of the sink lost the view, the sink has no mark of the view. But its other shards may have
			// the view, with the checkpoint's fingerprint (hash of the definition). Opening the view with another
			// fingerprint would empty it in these shards. So the checkpoint's fingerprint replaces the missing mark's.
			if !marked {
				marks = append(marks, replicator.Mark{View: c.View, Fingerprint: c.Fingerprint})
			}
		}
	}
	if at.views, err = p.asMarked(ctx, shard, []*replicator.View{v}, marks); err != nil {
		return at, false, err
	}
	for _, m := range marks {
		if m.View == v.Name && !m.Position.IsZero() {
			at.Standing, same = m.Standing, replicator.SameDefinition(at.views[0].Fingerprint, m.Fingerprint)
		}
	}
	return at, same, nil
}

// Forget removes the views' saved progress: the cells' states and the marks (checkpoints) in the sinks, and the
// checkpoints in the store.
func (p *Positions) Forget(ctx context.Context) error {
	return p.forget(ctx, "forgetting", func(sink replicator.Sink, v *replicator.View) error {
		return sink.Forget(ctx, v.Name)
	})
}

func (p *Positions) forget(
	ctx context.Context, doing string, inSink func(replicator.Sink, *replicator.View) error,
) error {
	return p.eachSink(func(sink replicator.Sink, views []*replicator.View) error {
		for _, v := range views {
			if err := inSink(sink, v); err != nil {
				return fmt.Errorf("%s view %s: %w", doing, v.Name, err)
			}
			if err := p.store.Forget(ctx, v.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// mark raises the views' marks (the checkpoints that the sink keeps). Raising only the store's checkpoint would have no
// effect, because a view continues at the lower of the two. A mark never falls.
func (p *Positions) mark(ctx context.Context, sink replicator.Sink, shard config.Shard, views []*replicator.View,
	at replicator.Position) error {
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return err
	}
	if views, err = p.asMarked(ctx, shard, views, marks); err != nil {
		return err
	}
	for i, c := range p.checkpoints(shard, views, at) {
		target, err := sink.Open(ctx, shard.Name, views[i:i+1])
		if err == nil {
			err = target.Mark(ctx, c.Standing)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asMarked returns copies of the views. If a view's mark has an equivalent fingerprint (hash of the definition), the
// copy gets the mark's fingerprint. A sink would empty a view that is opened with a fingerprint other than the mark's.
func (p *Positions) asMarked(ctx context.Context, shard config.Shard, views []*replicator.View,
	marks []replicator.Mark) ([]*replicator.View, error) {
	tables, err := tablesOf(p.Config, shard, views)
	if err != nil {
		return nil, err
	}
	source, err := p.source(shard, tables)
	if err != nil {
		return nil, InvalidError{err}
	}
	views, err = asMarked(ctx, source, views, marks)
	return views, errors.Join(err, source.Close())
}

// checkpoints returns the views' checkpoints at the new position. If a view is being filled, its checkpoint keeps the
// fill's progress.
func (p *Positions) checkpoints(shard config.Shard, views []*replicator.View,
	at replicator.Position) []replicator.Checkpoint {
	set := make([]replicator.Checkpoint, len(views))
	for i, v := range views {
		set[i] = replicator.Checkpoint{View: v.Name, Source: shard.Name, Fingerprint: v.Fingerprint}
		for _, c := range p.saved {
			if c.View == v.Name && c.Source == shard.Name && replicator.SameDefinition(c.Fingerprint, v.Fingerprint) {
				set[i].Standing = c.Standing
			}
		}
		set[i].Position = at
	}
	return set
}
