package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

// setter is one `checkpoint set`.
type setter struct {
	cfg   *config.Config
	log   *slog.Logger
	names []string // of views; empty: all
	pos   string
	store replicator.Store
	saved []replicator.Checkpoint
}

// setCheckpoints sets the position of the named views, in the sinks and in the store.
func setCheckpoints(ctx context.Context, o *options, cfg *config.Config, names []string, pos string) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	if err := fingerprint(cfg); err != nil {
		return err
	}
	s := &setter{cfg: cfg, log: log, names: names, pos: pos}
	if s.store, err = openStore(ctx, cfg); err != nil {
		return err
	}
	s.saved, err = s.store.Checkpoints(ctx)
	for _, shard := range cfg.Source.Shards {
		if err == nil {
			err = s.shard(ctx, shard)
		}
	}
	return errors.Join(err, s.store.Close())
}

// shard sets the position of the views for one shard of the source.
func (s *setter) shard(ctx context.Context, shard config.Shard) error {
	at, err := s.at(ctx, shard)
	if err != nil {
		return err
	}
	for i := range s.cfg.Sinks {
		sink := &s.cfg.Sinks[i]
		var views []*replicator.View
		for _, v := range viewsOf(s.cfg, sink.Name) {
			if len(s.names) == 0 || slices.Contains(s.names, v.Name) {
				views = append(views, v)
			}
		}
		if len(views) == 0 {
			continue
		}
		if err := s.mark(ctx, sink, shard, views, at); err != nil {
			return fmt.Errorf("sink %s: %w", sink.Name, err)
		}
		if err := s.store.Save(ctx, s.checkpoints(shard, views, at)); err != nil {
			return err
		}
	}
	return nil
}

// at is the position that was asked for, as the source knows it.
func (s *setter) at(ctx context.Context, shard config.Shard) (replicator.Position, error) {
	tables, err := tablesOf(s.cfg, shard, s.cfg.Views)
	if err != nil {
		return replicator.Position{}, err
	}
	source, err := newSource(shard, tables, s.log, 0)
	if err != nil {
		return replicator.Position{}, usageError{err}
	}
	var known []replicator.Position
	for _, c := range s.saved {
		if c.Source == shard.Name {
			known = append(known, c.Position)
		}
	}
	at, err := source.At(ctx, s.pos, known)
	if errors.Is(err, canal.ErrFence) {
		err = usageError{fmt.Errorf("--pos: %w", err)}
	}
	return at, errors.Join(err, source.Close())
}

// mark raises the marks in the sink: a view goes on at the lower of its checkpoint and its mark, so that a checkpoint alone
// could not skip anything. An earlier position leaves them.
func (s *setter) mark(ctx context.Context, sink *config.Sink, shard config.Shard, views []*replicator.View, at replicator.Position) error {
	opened, err := openSink(s.cfg, sink, s.log)
	if err != nil {
		return err
	}
	for _, c := range s.checkpoints(shard, views, at) {
		i := slices.IndexFunc(views, func(v *replicator.View) bool { return v.Name == c.View })
		target, err := s.target(ctx, opened, shard, views[i:i+1])
		if err == nil {
			err = errors.Join(target.Mark(ctx, c.Standing), target.Close())
		}
		if err != nil {
			return errors.Join(err, opened.Close())
		}
	}
	return opened.Close()
}

// target opens the views as the sink knows them: under another fingerprint it would begin them anew.
func (s *setter) target(ctx context.Context, sink replicator.Sink, shard config.Shard, views []*replicator.View) (replicator.Target, error) {
	tables, err := tablesOf(s.cfg, shard, views)
	if err != nil {
		return nil, err
	}
	source, err := newSource(shard, tables, s.log, 0)
	if err != nil {
		return nil, usageError{err}
	}
	marks, err := sink.Marks(ctx, shard.Name)
	if err == nil {
		views, err = asMarked(ctx, source, views, marks)
	}
	if err = errors.Join(err, source.Close()); err != nil {
		return nil, err
	}
	return sink.Open(ctx, shard.Name, views)
}

// checkpoints are those of the views at the new position. A fill that is under way goes on.
func (s *setter) checkpoints(shard config.Shard, views []*replicator.View, at replicator.Position) []replicator.Checkpoint {
	set := make([]replicator.Checkpoint, len(views))
	for i, v := range views {
		set[i] = replicator.Checkpoint{View: v.Name, Source: shard.Name, Fingerprint: v.Fingerprint}
		for _, c := range s.saved {
			if c.View == v.Name && c.Source == shard.Name && replicator.SameDefinition(c.Fingerprint, v.Fingerprint) {
				set[i].Standing = c.Standing
			}
		}
		set[i].Position = at
	}
	return set
}
