package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"replicator"
)

// definitions are the fingerprints of a pipeline's views with what their tables are now. They are in the views, and
// change only while no run has the view; the mutex is for those who want to show them.
type definitions struct {
	cfg *Config
	mu  sync.Mutex
}

// of is a view's fingerprint.
func (d *definitions) of(v *replicator.View) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.Fingerprint
}

// current are the fingerprints of views as their tables are now.
func (d *definitions) current(ctx context.Context, views []*replicator.View) ([]string, error) {
	now := make([]string, len(views))
	identities, err := d.cfg.Source.Identities(ctx, replicator.Feeding(views))
	if err != nil {
		return nil, replicator.OfSource(fmt.Errorf("asking the source what its tables are: %w", err))
	}
	for i, v := range views {
		now[i] = replicator.DefinedOn(v, identities)
	}
	return now, nil
}

// update gives views the fingerprints that they have with what their tables are now. One that the sink or the store
// knows, and that means the same, is kept as they know it.
func (d *definitions) update(ctx context.Context, views []*replicator.View, known *remembered) error {
	now, err := d.current(ctx, views)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, v := range views {
		v.Fingerprint = now[i]
		c, m := known.of(v.Name)
		switch {
		case m != nil && replicator.SameDefinition(m.Fingerprint, v.Fingerprint):
			v.Fingerprint = m.Fingerprint
		case m == nil && c != nil && replicator.SameDefinition(c.Fingerprint, v.Fingerprint):
			v.Fingerprint = c.Fingerprint
		}
	}
	return nil
}

// set gives a view another fingerprint.
func (d *definitions) set(v *replicator.View, fingerprint string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.Fingerprint = fingerprint
}

// check fails where a table is no longer what a view's fingerprint says, or where tables can't be merged. Whoever asks
// has opened a reader before: what that meets is what the table is now, or an ALTER on the way.
func (d *definitions) check(ctx context.Context, views []*replicator.View) error {
	now, err := d.current(ctx, views)
	if err != nil {
		return err
	}
	var changed []error
	for i, v := range views {
		refused, err := sameKeys(ctx, d.cfg.Source, v)
		if err != nil {
			return err
		}
		changed = append(changed, replicator.Redefined(v, v.Fingerprint, now[i]), refused)
	}
	return errors.Join(changed...)
}

// sameKeys refuses a view that merges what two tables have of an entity where their keys are never the same: it would
// hold two entities in one place, and each would take away what the other has there.
func sameKeys(ctx context.Context, source replicator.Source, v *replicator.View) (refused, err error) {
	tables := replicator.Feeding([]*replicator.View{v})
	// Counters and rankings add up, whatever the key; a changelog's records name their tables.
	if len(tables) < 2 || slices.Contains([]string{"counter", "ranking", "changelog"}, v.Kind) {
		return nil, nil
	}
	if err = source.SameKeys(ctx, tables); !errors.Is(err, replicator.ErrOtherKeys) {
		return nil, replicator.OfSource(err)
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: it can't merge what it is made from: %w; "+
		"give both columns one type, or make a view of each", v.ShownAs(), err)), v.Name), nil
}
