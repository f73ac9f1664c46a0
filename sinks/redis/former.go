package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// Records still contain what cells contributed under an earlier definition of a view. A cell that still feeds the view
// replaces that contribution when it is next applied, at the latest by the fill. This is not enough in two cases:
//
//   - Contributions of another kind would block the view's own at the same key (a hash where a JSON object must be).
//     Or, if Redis has one type for both kinds, their removal would remove what another entity has put at the key
//     meanwhile. So Open removes them before anything is applied (makeRoom).
//   - Cells that no longer feed the view are never applied again. Relinquish removes their contributions after the
//     fill.

var (
	_ replicator.Relinquisher = (*Target)(nil)
	_ replicator.Sourced      = (*Sink)(nil)
)

// Relinquish implements replicator.Relinquisher.
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
	return t.recall(ctx)
}

// vacate removes what former sources, which no longer feed the sink, contributed to views that were forgotten. The
// fills of the present sources write the views again. What a present source contributes stays, even if an entity has
// moved to it from a former source.
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
			if err == nil { // the mark tells the next fill that it need not search all records again
				err = t.sink.forget(ctx, source, k.view.Name, storedMark{Vacated: true})
			}
		}
		if err != nil {
			return fmt.Errorf("removing the contributions of the former source %q: %w", source, err)
		}
	}
	return nil
}

// makeRoom removes contributions that would block those of the present views: contributions of a different kind that
// their view had before, and contributions at keys that a view of a different kind can make now, as when views exchange
// their keys.
func (t *Target) makeRoom(ctx context.Context) error {
	return t.takeBack(ctx, func(k *keeper, _ *cellRecord, v *viewRecord) (bool, error) {
		claims, err := parseClaims(v.claims)
		unlike := func(c claim) bool {
			return c.kind != kindDead && c.kind != kindWaiting && (c.kind != k.kind || t.isOfAnother(k, c))
		}
		return slices.ContainsFunc(claims, unlike), err
	})
}

// isOfAnother reports whether a claim of k is at a key that another view, of another kind, can make now.
func (t *Target) isOfAnother(k *keeper, c claim) bool {
	return t.sink.names != nil && slices.ContainsFunc(t.keepers, func(o *keeper) bool {
		return o != k && o.kind != c.kind && t.sink.names.Makes(o.view, c.key)
	})
}

// takeBack removes contributions that cells made under earlier definitions of the views, if the function `which`
// returns true for them. It considers only views that are being filled. It writes with the generation before the views'
// own, so that the states that it writes don't count.
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
		return fmt.Errorf("taking back what an earlier definition put there: %w", err)
	}
	return nil
}

// reclaiming returns a target that removes contributions of a source. The caller adds the views.
func (t *Target) reclaiming(source string) *Target {
	return &Target{sink: t.sink, source: source, marks: t.marks, memory: newMemory(), reclaims: true}
}

// applyEach calls the function `of` with each cell that has a record, and applies the values that the function returns.
// The values are empty, so they remove contributions. They always count, because the target's keepers have a different
// generation than the stored states.
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
			op := replicator.Op{Cell: c.cell, Version: replicator.NoVersion, AsOf: 1} // any log position will do
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

// empty removes all that cells contribute to the target's views.
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

// former returns an empty value for each view from which the cell's contribution must be removed. That is each view for
// which two things hold: the contribution was made under an earlier definition, and the function `which` returns true
// for it.
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
