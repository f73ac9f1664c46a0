package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"replicator"
)

// definitions reads and sets the fingerprints of views. A fingerprint identifies the definition of a view and of its
// tables. It changes only while the view doesn't run, but other goroutines may read it at any time, so a mutex guards
// it.
type definitions struct {
	cfg *Config
	mu  sync.Mutex
}

func (d *definitions) of(v *replicator.View) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.Fingerprint
}

func (d *definitions) current(ctx context.Context, views []*replicator.View) ([]string, error) {
	now := make([]string, len(views))
	identities, err := d.cfg.Source.Identities(ctx, replicator.Feeding(views))
	if err != nil {
		return nil, replicator.OfSource(fmt.Errorf("reading the definitions of the source's tables: %w", err))
	}
	for i, v := range views {
		now[i] = replicator.DefinedOn(v, identities)
	}
	return now, nil
}

// update computes the views' fingerprints from the present definitions of their tables. If a view's mark (without a
// mark, its checkpoint) has a fingerprint of the same definition, update sets that one. The two may differ, because a
// fingerprint lacks the tables' part while the definition of a table is unknown (see replicator.DefinedOn).
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

func (d *definitions) set(v *replicator.View, fingerprint string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.Fingerprint = fingerprint
}

// check fails if a table has changed since its view's fingerprint was made, or if the cells of several tables can't be
// merged. Call it after Source.Open: that reader reports an ALTER after the check, so none is missed.
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

// sameKeys refuses a view of several tables if the keys of two tables can't be compared. Rows of both could then have
// the same name in the sink, and each would remove the other's entry.
func sameKeys(ctx context.Context, source replicator.Source, v *replicator.View) (refused, err error) {
	tables := replicator.Feeding([]*replicator.View{v})
	// These kinds don't merge cells by key. Counters and rankings add up over all keys; a changelog's records name
	// their tables.
	if len(tables) < 2 || slices.Contains([]string{"counter", "ranking", "changelog"}, v.Kind) {
		return nil, nil
	}
	if err = source.SameKeys(ctx, tables); !errors.Is(err, replicator.ErrOtherKeys) {
		return nil, replicator.OfSource(err)
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: its tables can't be merged: %w. "+
		"Give both columns the same type, or make a separate view of each table", v.ShownAs(), err)), v.Name), nil
}
