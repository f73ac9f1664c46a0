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

// takeUp goes on with the rebuilds that were under way, and begins those of views whose definition changed. Where that
// fails the other views go on, and it is tried again.
func (p *Pipeline) takeUp(ctx context.Context) error {
	if p.takenUp || time.Now().Before(p.takeUpAt) {
		return nil
	}
	err := p.resumeRebuilds(ctx)
	changed := slices.DeleteFunc(slices.Clone(p.changed), func(name string) bool {
		b := p.rebuildOf(p.view(name))
		return b != nil && !b.run.redefined()
	})
	refused := map[string]error{}
	if err == nil {
		refused = p.beginRebuilds(ctx, changed)
		err = errors.Join(slices.Collect(maps.Values(refused))...)
	} else {
		for _, name := range changed {
			refused[name] = err
		}
	}
	switch {
	case err == nil:
		p.takenUp = true
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		p.takeUpAt = time.Now().Add(retryPause)
		p.Log.Error("rebuilds can't go on or begin yet", "sink", p.Name, "retry_in", retryPause, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.changed {
		delete(p.failed, name)
		if err := refused[name]; replicator.IsFatal(err) {
			p.failed[name] = err
		}
	}
	if p.takenUp {
		p.changed = nil
	}
	return nil
}

// beginRebuilds begins to rebuild views in one scan, each by itself where one of them can't be. It returns what is
// wrong, by view.
func (p *Pipeline) beginRebuilds(ctx context.Context, views []string) map[string]error {
	refused := map[string]error{}
	if len(views) == 0 {
		return refused
	}
	err := p.beginRebuild(ctx, views, BySwap, "")
	for _, name := range views {
		if replicator.IsFatal(err) && len(views) > 1 {
			maps.Copy(refused, p.beginRebuilds(ctx, []string{name}))
		} else if err != nil {
			refused[name] = err
		}
	}
	return refused
}

// resumeRebuilds goes on with the rebuilds that a crash or a stop interrupted. A shadow with a checkpoint and without a
// mark was swapped in, or discarded, before the checkpoint could be removed.
func (p *Pipeline) resumeRebuilds(ctx context.Context) error {
	shadower, ok := p.Sink.(replicator.Shadower)
	if !ok {
		return nil
	}
	saved, marks, err := p.remembered(ctx)
	if err != nil {
		return err
	}
	var shadows []replicator.Checkpoint
	for _, c := range saved {
		name, is := strings.CutSuffix(c.View, replicator.ShadowSuffix)
		v := p.view(name)
		if !is || v == nil || c.Source != p.Source.Name() || p.rebuildOf(v) != nil {
			continue
		}
		_, m := find(nil, marks, c.View, c.Source)
		switch {
		case m == nil:
			err = p.inherit(ctx, v)
		case !replicator.SameDefinition(c.Fingerprint, v.Fingerprint):
			err = errors.Join(shadower.Discard(ctx, []*replicator.View{v}), p.Store.Forget(ctx, c.View))
		default:
			shadows = append(shadows, c)
		}
		if err != nil {
			return fmt.Errorf("sink %s: removing what is left of a rebuild of view %s: %w", p.Name, name, err)
		}
	}
	for _, group := range together(shadows) {
		b := &rebuild{}
		for _, c := range group {
			v := p.view(strings.TrimSuffix(c.View, replicator.ShadowSuffix))
			b.views, b.shadows = append(b.views, v), append(b.shadows, shadower.Shadow(v))
		}
		if err := p.launchShadows(b, group); err != nil {
			return err
		}
	}
	return nil
}
