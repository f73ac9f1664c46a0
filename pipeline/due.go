package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"replicator"
)

// due begins or continues rebuilds automatically: rebuilds that were running when the program ended, and rebuilds of
// views whose definition changed. Only the supervisor's goroutine uses it.
type due struct {
	*shared
	rebuilder *rebuilder
	changed   []string // views to be rebuilt because their definition changed
	done      bool     // no rebuild is left to continue or to begin
	retryAt   time.Time
}

func (d *due) add(views ...string) {
	if len(views) > 0 {
		d.changed, d.done = append(d.changed, views...), false
	}
}

// begin continues earlier rebuilds, and begins the rebuilds of views whose definition changed. If a rebuild fails to
// begin, it is tried again later, and the other views continue.
func (d *due) begin(ctx context.Context) error {
	if d.done || time.Now().Before(d.retryAt) {
		return nil
	}
	err := d.resume(ctx)
	changed := slices.DeleteFunc(slices.Clone(d.changed), func(name string) bool {
		b := d.rebuildOf(name)
		return b != nil && !b.run.redefined()
	})
	refused := map[string]error{}
	if err == nil {
		refused = d.rebuild(ctx, changed)
		err = errors.Join(slices.Collect(maps.Values(refused))...)
	} else {
		for _, name := range changed {
			refused[name] = err
		}
	}
	switch {
	case err == nil:
		d.done = true
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		d.retryAt = time.Now().Add(retryPause)
		d.cfg.Log.Error("rebuilds could not continue or begin, and are tried again", "sink", d.cfg.Name,
			"retry_in", retryPause, "error", err)
	}
	for _, name := range d.changed {
		reason := refused[name]
		if !replicator.IsFatal(reason) {
			reason = nil
		}
		d.stopped.setFailed(name, reason)
	}
	if d.done {
		d.changed = nil
	}
	return nil
}

// rebuild begins to rebuild views in one scan. If one of the views can't be rebuilt, each view gets its own scan. The
// result is the errors, by view.
func (d *due) rebuild(ctx context.Context, views []string) map[string]error {
	refused := map[string]error{}
	if len(views) == 0 {
		return refused
	}
	err := d.rebuilder.begin(ctx, views, BySwap, "")
	for _, name := range views {
		if replicator.IsFatal(err) && len(views) > 1 {
			maps.Copy(refused, d.rebuild(ctx, []string{name}))
		} else if err != nil {
			refused[name] = err
		}
	}
	return refused
}

// resume continues rebuilds that a crash or a stop interrupted. If a shadow (a view's second copy, which a rebuild
// fills) has a checkpoint in the store and no mark in the sink, the sink has already swapped it in. Then resume only
// brings the store up to date (inherit).
func (d *due) resume(ctx context.Context) error {
	shadower, ok := d.cfg.Sink.(replicator.Shadower)
	if !ok {
		return nil
	}
	known, err := d.planner.remember(ctx)
	if err != nil {
		return err
	}
	if err := d.dropLeft(ctx, known.saved); err != nil {
		return err
	}
	var shadows []replicator.Checkpoint
	for _, c := range known.saved {
		name, is := strings.CutSuffix(c.View, replicator.ShadowSuffix)
		v := d.cfg.view(name)
		if !is || v == nil || c.Source != d.cfg.Source.Name() || d.rebuildOf(name) != nil {
			continue
		}
		_, m := known.of(c.View)
		switch {
		case m == nil:
			err = inherit(ctx, d.cfg.Store, v)
		case !replicator.SameDefinition(c.Fingerprint, v.Fingerprint):
			if err = forgetShadow(ctx, d.cfg.Store, v); err == nil {
				err = shadower.Discard(ctx, []*replicator.View{v})
			}
		default:
			shadows = append(shadows, c)
		}
		if err != nil {
			return fmt.Errorf("sink %s: removing the remains of a rebuild of view %s: %w", d.cfg.Name, name, err)
		}
	}
	for _, group := range together(shadows) {
		b := &rebuild{}
		for _, c := range group {
			v := d.cfg.view(strings.TrimSuffix(c.View, replicator.ShadowSuffix))
			b.views, b.shadows = append(b.views, v), append(b.shadows, shadower.Shadow(v))
		}
		if err := d.rebuilder.launch(b, b.shadows, group); err != nil {
			return err
		}
	}
	return nil
}

// dropLeft drops the dead letters of a view's shadow (second copy), if the shadow has no checkpoint any more. A crash
// leaves such letters behind if it comes after `forgetShadow` has removed the checkpoint.
func (d *due) dropLeft(ctx context.Context, saved []replicator.Checkpoint) error {
	if !d.cfg.swaps() {
		return nil
	}
	counts, err := d.cfg.Store.Count(ctx)
	if err != nil {
		return fmt.Errorf("counting the dead letters: %w", err)
	}
	for _, v := range d.cfg.Views {
		shadow := v.Name + replicator.ShadowSuffix
		kept := slices.ContainsFunc(saved, func(c replicator.Checkpoint) bool { return c.View == shadow })
		if kept || counts[shadow] == 0 || d.rebuildOf(v.Name) != nil {
			continue
		}
		if err := dropOfShadow(ctx, d.cfg.Store, v); err != nil {
			return fmt.Errorf("view %s: dropping the dead letters of a rebuild that ended: %w", v.Name, err)
		}
	}
	return nil
}

// findRedefined schedules the rebuild of views whose tables were redefined while the views ran, if the views' on_change
// is rebuild. The other redefined views stay failed until the operator acts.
func (d *due) findRedefined(ctx context.Context) {
	var candidates []*replicator.View
	for _, r := range d.runs.all() {
		if !r.redefined() {
			continue
		}
		for _, v := range d.cfg.Views {
			runs := func(own *replicator.View) bool { return own.Name == v.Name || own.Shadows == v.Name }
			if v.OnChange == "rebuild" && !slices.Contains(d.changed, v.Name) && slices.ContainsFunc(r.views, runs) {
				candidates = append(candidates, v)
			}
		}
	}
	if len(candidates) == 0 {
		return
	}
	now, err := d.planner.definitions.current(ctx, candidates)
	if err != nil {
		return // the run reports this error; the next call of findRedefined asks the source again
	}
	for i, v := range candidates {
		if replicator.Redefined(v, v.Fingerprint, now[i]) != nil {
			d.add(v.Name)
		}
	}
}
