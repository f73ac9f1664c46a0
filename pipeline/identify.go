package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
)

// identify gives views the fingerprints that they have with what their tables are now. One that the sink or the store
// knows, and that means the same, is kept as they know it.
func (p *Pipeline) identify(ctx context.Context, views []*replicator.View, saved []replicator.Checkpoint, marks []replicator.Mark) error {
	now, err := p.definitions(ctx, views)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, v := range views {
		v.Fingerprint = now[i]
		c, m := find(saved, marks, v.Name, p.Source.Name())
		switch {
		case m != nil && replicator.SameDefinition(m.Fingerprint, v.Fingerprint):
			v.Fingerprint = m.Fingerprint
		case m == nil && c != nil && replicator.SameDefinition(c.Fingerprint, v.Fingerprint):
			v.Fingerprint = c.Fingerprint
		}
	}
	return nil
}

// definitions are the fingerprints of views as their tables are now.
func (p *Pipeline) definitions(ctx context.Context, views []*replicator.View) ([]string, error) {
	now := make([]string, len(views))
	identities, err := p.Source.Identities(ctx, replicator.TablesOf(views))
	if err != nil {
		return nil, fmt.Errorf("asking the source what its tables are: %w", err)
	}
	for i, v := range views {
		now[i] = replicator.DefinedOn(v, identities)
	}
	return now, nil
}

// sameTables fails where a table is no longer what a view's fingerprint says. Whoever asks has opened a reader before:
// what that meets is what the table is now, or an ALTER on the way.
func (r *run) sameTables(ctx context.Context) error {
	now, err := r.pipeline.definitions(ctx, r.views)
	if err != nil {
		return err
	}
	var changed []error
	for i, v := range r.views {
		refused, err := r.pipeline.sameKeys(ctx, v)
		if err != nil {
			return err
		}
		changed = append(changed, replicator.Redefined(v, v.Fingerprint, now[i]), refused)
	}
	return errors.Join(changed...)
}

// sameKeys refuses a view that merges what two tables have of an entity where their keys are never the same: it would
// hold two entities in one place, and each would take away what the other has there.
func (p *Pipeline) sameKeys(ctx context.Context, v *replicator.View) (refused, err error) {
	tables := replicator.TablesOf([]*replicator.View{v})
	if len(tables) < 2 || v.Kind == "counter" || v.Kind == "ranking" { // these add up, whatever the key
		return nil, nil
	}
	if err = p.Source.SameKeys(ctx, tables); !errors.Is(err, replicator.ErrOtherKeys) {
		return nil, err
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: it can't merge what it is made from: %w; give both columns one type, or make a view of each", v.ShownAs(),
		err)), v.Name), nil
}

// redefine gives views whose tables have become something else their new fingerprints. They are taken out of their
// runs, which can't go on, and are failed until a rebuild of them is done.
func (p *Pipeline) redefine(ctx context.Context, views []*replicator.View) error {
	now, err := p.definitions(ctx, views)
	if err != nil {
		return err
	}
	failed := map[string]error{}
	fresh := map[*replicator.View]string{}
	var changed []*replicator.View
	for i, v := range views {
		if err := replicator.Redefined(v, v.Fingerprint, now[i]); err != nil {
			changed, failed[v.Name], fresh[v] = append(changed, v), err, now[i]
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := p.takeOut(ctx, changed); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range changed {
		v.Fingerprint, p.failed[v.Name] = fresh[v], failed[v.Name]
	}
	return nil
}

// redefined reports whether the run failed because a table has become something else.
func (r *run) redefined() bool {
	_, err := r.trouble()
	return errors.Is(err, replicator.ErrRedefined)
}

// rebuildRedefined has those views rebuilt whose tables have become something else while they ran, where their
// on_change says so. The others stay failed until somebody acts.
func (p *Pipeline) rebuildRedefined(ctx context.Context) {
	p.mu.Lock()
	var candidates []*replicator.View
	for _, r := range p.runs {
		if !r.redefined() {
			continue
		}
		for _, v := range p.Views {
			runs := func(own *replicator.View) bool { return own.Name == v.Name || own.Shadows == v.Name }
			if v.OnChange == "rebuild" && !slices.Contains(p.changed, v.Name) && slices.ContainsFunc(r.views, runs) {
				candidates = append(candidates, v)
			}
		}
	}
	p.mu.Unlock()
	if len(candidates) == 0 {
		return
	}
	now, err := p.definitions(ctx, candidates)
	if err != nil {
		return // the run says why it doesn't go on; it is asked again in a moment
	}
	for i, v := range candidates {
		if replicator.Redefined(v, v.Fingerprint, now[i]) != nil {
			p.changed, p.takenUp = append(p.changed, v.Name), false
		}
	}
}
