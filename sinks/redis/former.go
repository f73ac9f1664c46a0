package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// After a view was redefined, records still contain what cells contributed under its earlier definition. The next op of
// a cell replaces that. In two cases this is not enough:
//
//   - A contribution of another kind (a hash where a JSON object must be) would block the new ones at the same key.
//     Open removes it before anything is applied (makeRoom).
//   - A cell that no longer feeds the view has no next op. Relinquish removes its contributions after the fill.

var (
	_ replicator.Relinquisher = (*Target)(nil)
	_ replicator.Sourced      = (*Sink)(nil)
)

// Relinquish removes the contributions of cells that fed a view under its earlier definition and don't feed it now.
func (t *Target) Relinquish(ctx context.Context) error {
	err := t.takeBack(ctx, func(k *keeper, c *cellRecord, _ *viewRecord) (bool, error) {
		return !k.view.Feeds(c.cell), nil
	})
	if err == nil {
		err = t.vacate(ctx)
	}
	if err != nil {
		return err
	}
	return t.removeUnrecorded(ctx)
}

// vacate removes what former sources contributed to the target's views. A former source is one that no longer feeds the
// sink. Its mark of the view must say that the view was forgotten (Sink.Forget), or vacate skips the view.
func (t *Target) vacate(ctx context.Context) error {
	if !t.sink.feeds(t.source) {
		return nil
	}
	sources, err := t.sink.Sources(ctx)
	if err != nil {
		return err
	}
	for _, source := range sources {
		if t.sink.feeds(source) {
			continue
		}
		marks, err := t.sink.readMarks(ctx, source)
		if err != nil {
			return err
		}
		gone := t.reclaiming(source)
		gone.views = t.views
		others := slices.DeleteFunc(slices.Clone(sources), func(s string) bool {
			return s == source || strings.Contains(s, "/")
		})
		for _, k := range t.keepers {
			if m := marks[k.view.Name]; m != nil && m.forgotten() && !m.vacated() {
				former := *k
				former.index, former.generation = len(gone.keepers), m.generation()
				former.feedBy(source, others)
				gone.keepers = append(gone.keepers, &former)
			}
		}
		if len(gone.keepers) == 0 {
			continue
		}
		err = gone.empty(ctx)
		for _, k := range gone.keepers {
			if err == nil { // Vacated tells the next fill that it need not search all records again
				err = t.sink.forget(ctx, source, k.view.Name, storedMark{Vacated: true})
			}
		}
		if err != nil {
			return fmt.Errorf("removing the contributions of the former source %q: %w", source, err)
		}
	}
	return nil
}

// makeRoom removes earlier contributions that would block new ones. Either their view had another kind then, or their
// keys now belong to a view of another kind, as after two views exchanged their keys.
func (t *Target) makeRoom(ctx context.Context) error {
	return t.takeBack(ctx, func(k *keeper, _ *cellRecord, v *viewRecord) (bool, error) {
		claims, err := parseClaims(v.claims)
		unlike := func(c claim) bool {
			return c.kind != kindDead && c.kind != kindWaiting && (c.kind != k.kind || t.isOfAnother(k, c))
		}
		return slices.ContainsFunc(claims, unlike), err
	})
}

// isOfAnother reports whether the Redis key of c, an item that a cell contributes to k's view, now belongs to another
// view: that view has another kind than c, and its present key template can make the key.
func (t *Target) isOfAnother(k *keeper, c claim) bool {
	return t.sink.names != nil && slices.ContainsFunc(t.keepers, func(o *keeper) bool {
		return o != k && o.kind != c.kind && t.sink.names.Makes(o.view, c.key)
	})
}

// takeBack removes contributions that earlier definitions of the views made, if `which` returns true for them. It
// considers only views that are being filled. The states that it writes don't count: their generation (number of a
// definition) is one less than the view's own, and no definition has that number.
func (t *Target) takeBack(ctx context.Context, which func(*keeper, *cellRecord, *viewRecord) (bool, error)) error {
	if !slices.ContainsFunc(t.keepers, func(k *keeper) bool { return k.former }) {
		return nil
	}
	before := t.reclaiming(t.source)
	before.views = t.views
	for _, k := range t.keepers {
		earlier := *k
		earlier.generation--
		before.keepers = append(before.keepers, &earlier)
	}
	err := before.applyEach(ctx, func(c *cellRecord) ([]replicator.Value, error) {
		return t.former(c, which)
	})
	if err != nil {
		return fmt.Errorf("removing what earlier definitions of the views wrote: %w", err)
	}
	return nil
}

// reclaiming returns a target, still without views, that only removes contributions of a source.
func (t *Target) reclaiming(source string) *Target {
	return &Target{sink: t.sink, source: source, marks: t.marks, memory: newMemory(), reclaims: true}
}

// applyEach calls `of` with each cell that has a record, and applies the values that `of` returns. These values must be
// empty: they remove the cell's contributions. No stored state may have the target's generation of its view (number of
// a definition), so that no value is stale.
func (t *Target) applyEach(ctx context.Context, of func(*cellRecord) ([]replicator.Value, error)) error {
	var ops []replicator.Op
	apply := func() error {
		_, err := t.Apply(ctx, ops)
		ops = nil
		return err
	}
	err := t.eachRecord(ctx, func(key string, r *record) (err error) {
		for i := range r.cells {
			c := &r.cells[i]
			// Any AsOf will do, because no stored state counts.
			op := replicator.Op{Cell: c.cell, Version: replicator.NoVersion, AsOf: 1}
			if op.Values, err = of(c); err != nil {
				return replicator.Fatal(fmt.Errorf("%s: %w", key, err))
			}
			if len(op.Values) > 0 {
				ops = append(ops, op)
			}
		}
		if len(ops) < recordPage {
			return nil
		}
		return apply()
	})
	if err != nil {
		return err
	}
	return apply()
}

func (t *Target) empty(ctx context.Context) error {
	return t.applyEach(ctx, func(c *cellRecord) (values []replicator.Value, _ error) {
		for _, k := range t.keepers {
			if v := c.view(k.id); v != nil && v.claims != "" {
				values = append(values, replicator.Value{View: k.index})
			}
		}
		return values, nil
	})
}

// former returns empty values, which remove contributions of the cell. There is one for each view whose contribution an
// earlier definition of the view made, if `which` returns true for it.
func (t *Target) former(
	c *cellRecord, which func(*keeper, *cellRecord, *viewRecord) (bool, error),
) (values []replicator.Value, err error) {
	for i, k := range t.keepers {
		v := c.view(k.id)
		if !k.former || v == nil || v.claims == "" || v.generation == k.generation {
			continue
		}
		if is, err := which(k, c, v); err != nil {
			return nil, err
		} else if is {
			values = append(values, replicator.Value{View: i})
		}
	}
	return values, nil
}
