package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

// control is what the HTTP side asks of the running program.
type control struct{ *app }

var _ server.Controller = control{}

// Status implements server.Controller.
func (c control) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	counts, err := c.store.Count(ctx)
	if err != nil {
		return nil, err
	}
	var all []replicator.ViewStatus
	for _, p := range c.pipelines {
		views := p.Status(counts)
		if c.rounds != nil {
			for i := range views {
				views[i].Verified = c.rounds.Last(views[i].View, views[i].Source)
			}
		}
		all = append(all, views...)
	}
	return all, c.placed(ctx, all)
}

// placed fills in where views stand that no reader tells of: they keep their place while they don't run.
func (c control) placed(ctx context.Context, views []replicator.ViewStatus) error {
	var saved []replicator.Checkpoint
	for i := range views {
		v := &views[i]
		if v.Position != "" {
			continue
		}
		if v.Applied.IsZero() && saved == nil {
			var err error
			if saved, err = c.store.Checkpoints(ctx); err != nil {
				return err
			}
		}
		at := v.Applied
		for _, checkpoint := range saved {
			if at.IsZero() && checkpoint.View == v.View && checkpoint.Source == v.Source {
				at = checkpoint.Position
			}
		}
		v.Position, _ = place(at)
	}
	return nil
}

// Wait implements server.Controller. Of a source with shards, a fence is one shard's; the others don't know its files
// or GTIDs, and are not waited for.
func (c control) Wait(ctx context.Context, fence server.Fence, views []string) error {
	if err := knowsSource(c.cfg, fence.Source); err != nil {
		return fmt.Errorf("%w: %w", server.ErrInvalid, err)
	}
	for _, name := range views {
		if c.cfg.View(name) == nil {
			return fmt.Errorf("view %q: %w in this configuration", name, server.ErrUnknown)
		}
	}
	var errs []error
	for _, p := range c.pipelines {
		wanted := slices.DeleteFunc(slices.Clone(views), func(v string) bool { return !p.Keeps(v) })
		if len(views) > 0 && len(wanted) == 0 || p.Source.Name() != fence.Source {
			continue
		}
		err := p.Wait(ctx, fence.At, wanted)
		if errors.Is(err, canal.ErrFence) { // the others would say the same
			return fmt.Errorf("%w: %w", server.ErrInvalid, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// knowsSource is nil if the source has that shard, or no shards where none is named: a place in a binlog is one
// server's.
func knowsSource(cfg *config.Config, name string) error {
	var names []string
	for _, s := range cfg.Source.Shards {
		names = append(names, s.Name)
	}
	switch {
	case slices.Contains(names, name):
		return nil
	case name == "":
		return fmt.Errorf("the source has the shards %s: name the one you mean, as in --source %s", strings.Join(names, ", "), names[0])
	case names[0] == "":
		return fmt.Errorf("the source has no shards: leave out --source %s", name)
	}
	return fmt.Errorf("the source has no shard %s; it has %s", name, strings.Join(names, ", "))
}

// Retry implements server.Controller: the cells are looked at in the source, and what is there now is put. Sessions
// begin anew before, because what made a letter dead is often mended in the target's table, which a sink reads when it
// opens.
func (c control) Retry(ctx context.Context, which server.Selection) (tried, left int, err error) {
	type group struct{ source, view string }
	cells := map[group][]replicator.Cell{}
	chosen := map[string]bool{}
	err = selected(ctx, c.store, which, func(l replicator.DeadLetter) {
		g := group{l.Source, l.View}
		cells[g], chosen[l.ID] = append(cells[g], l.Cell), true
	})
	if err != nil {
		return 0, 0, err
	}
	renewed := map[int]bool{}
	for g, cells := range cells {
		i := slices.IndexFunc(c.pipelines, func(p *pipeline.Pipeline) bool { return p.Source.Name() == g.source && p.Keeps(g.view) })
		if i < 0 {
			return tried, left, fmt.Errorf("view %s is not in the configuration any more: drop its dead letters", g.view)
		}
		if !renewed[i] {
			renewed[i] = true
			if err := c.pipelines[i].Renew(ctx, g.view); err != nil {
				return tried, left, err
			}
		}
		if err := c.pipelines[i].Look(ctx, g.view, cells); err != nil {
			return tried, left, err
		}
		tried += len(cells)
	}
	err = selected(ctx, c.store, server.Selection{All: true}, func(l replicator.DeadLetter) {
		if chosen[l.ID] {
			left++
		}
	})
	return tried, left, err
}

// Drop implements server.Controller.
func (c control) Drop(ctx context.Context, which server.Selection) (int, error) {
	return drop(ctx, c.store, which)
}

func drop(ctx context.Context, store replicator.Store, which server.Selection) (int, error) {
	var ids []string
	if err := selected(ctx, store, which, func(l replicator.DeadLetter) { ids = append(ids, l.ID) }); err != nil {
		return 0, err
	}
	return store.Drop(ctx, ids)
}

// selected gives the dead letters of a store that a selection names. An id that there is none of is an error, before
// anything is done.
func selected(ctx context.Context, store replicator.DeadLetters, which server.Selection, do func(replicator.DeadLetter)) error {
	named := map[string]bool{}
	for _, id := range which.IDs {
		named[id] = true
	}
	found := map[string]bool{}
	for l, err := range store.List(ctx, which.View) {
		if err != nil {
			return err
		}
		if len(named) == 0 || named[l.ID] {
			found[l.ID] = len(named) > 0
			do(l)
		}
	}
	return missing(which.IDs, found)
}
