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

// Positions changes what is remembered of how far views have come. No process may run meanwhile: the store is locked.
type Positions struct {
	Setup
	names []string // of views; empty: all
	store replicator.Store
	saved []replicator.Checkpoint
}

// OpenPositions opens the store for the named views, all if none is named.
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

// eachSink calls do with every sink that has some of the views.
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

// Set sets the position of the views in one source's log, by its name ("" without shards), in the sinks and in the
// store. A place in one server's log is none in another one's.
func (p *Positions) Set(ctx context.Context, source, pos string) error {
	if err := keepsPositions(p.Config, "set"); err != nil {
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

// at is the position that was asked for, as the source knows it: above all that the store and the sink remember, if the
// source's log is not the one that they know.
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

// Reset forgets the positions of the views. The sink first: a view with a checkpoint and no mark says that the sink
// lost it, one with a mark and no checkpoint would go on from the mark.
func (p *Positions) Reset(ctx context.Context) error {
	if err := keepsPositions(p.Config, "reset"); err != nil {
		return err
	}
	return p.eachSink(func(sink replicator.Sink, views []*replicator.View) error {
		for _, v := range views {
			if err := p.unmark(ctx, sink, v); err != nil {
				return fmt.Errorf("resetting view %s: %w", v.Name, err)
			}
			if err := p.store.Forget(ctx, v.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// unmark marks that a view is to begin anew, with what is known of its cells. Of one that was lost or changed that says
// nothing: it is forgotten where that happened, and to be filled, whatever start says. One that is not known at all
// begins as it is.
func (p *Positions) unmark(ctx context.Context, sink replicator.Sink, v *replicator.View) error {
	var known []stood
	intact := true
	for _, shard := range p.Config.Source.Shards {
		at, same, err := p.stood(ctx, sink, shard, v)
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
		if errors.Is(err, replicator.ErrSinkLost) { // it is forgotten by now
			intact = false
			target, err = sink.Open(ctx, at.shard, at.views)
		}
		if err != nil {
			return fmt.Errorf("%w; `replicator checkpoint forget %s` does not need to open it", err, v.Name)
		}
		next := at.Anew()
		unfilled := at.Filling() && !at.Repair // it lacks some, as an earlier reset may have found
		next.Repair = intact && (p.Config.Source.Start == "snapshot" || !unfilled)
		if err := target.Mark(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// forgetLost forgets a view in a sink. Parts of it that hold the view still keep it, with what their readers see.
func (p *Positions) forgetLost(ctx context.Context, sink replicator.Sink, v *replicator.View, known []stood) error {
	parted, ok := sink.(replicator.Parted)
	if !ok || len(known) == 0 {
		return sink.Forget(ctx, v.Name)
	}
	return parted.ForgetLost(ctx, known[0].views[0], p.Config.Source.ShardNames())
}

// stood is where a view stood with a shard of the source, as it is to be opened.
type stood struct {
	replicator.Standing
	shard string
	views []*replicator.View
}

// stood finds where a view stands, and whether the sink has that still, under the same definition.
func (p *Positions) stood(ctx context.Context, sink replicator.Sink, shard config.Shard,
	v *replicator.View) (at stood, same bool, err error) {
	at.shard = shard.Name
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return at, false, err
	}
	marked := slices.ContainsFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
	for _, c := range p.saved {
		if c.View == v.Name && c.Source == shard.Name {
			at.Standing = c.Standing
			if !marked { // parts of the sink that did not lose it know it by this fingerprint
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

// Forget forgets all that is known of the views.
func (p *Positions) Forget(ctx context.Context) error {
	return p.eachSink(func(sink replicator.Sink, views []*replicator.View) error {
		for _, v := range views {
			if err := sink.Forget(ctx, v.Name); err != nil {
				return fmt.Errorf("forgetting view %s: %w", v.Name, err)
			}
			if err := p.store.Forget(ctx, v.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// mark raises the marks in the sink: a view goes on at the lower of its checkpoint and its mark, so that a checkpoint
// alone could not skip anything. An earlier position leaves them.
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

// asMarked are the views as the sink knows them: under another fingerprint it would begin them anew.
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

// checkpoints are those of the views at the new position. A fill that is under way goes on.
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
