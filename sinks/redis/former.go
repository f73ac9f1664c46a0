package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// What cells put into a view by an earlier definition of it stands in their records. Those that feed it still have it
// replaced when they are applied next: by the fill, if not before. That is not enough in two cases:
//
//   - Of another kind: what stood under a key would keep the view's own things from it (a hash where a JSON object is to
//     be), or, of the same type in Redis, be taken away after another entity has put something there. It goes before
//     anything is applied: Open.
//   - Of cells that feed the view no more, whom nobody applies again: it goes after the fill: Relinquish.

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

// vacate takes back what sources put into the views that feed the sink no more, where the view was forgotten since:
// what it held is then to be made anew by those that do. What one of these claims stays, as when an entity moves to it.
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
			if err == nil { // whoever is filled next need not look through all records again
				err = t.sink.forget(ctx, source, k.view.Name, storedMark{Vacated: true})
			}
		}
		if err != nil {
			return fmt.Errorf("taking back what source %q put there, which is none any more: %w", source, err)
		}
	}
	return nil
}

// makeRoom takes back what is of another kind than the views' things are now, or than those of another view that has
// the name now, as where views exchange their keys.
func (t *Target) makeRoom(ctx context.Context) error {
	return t.takeBack(ctx, func(k *keeper, _ *cellRecord, v *viewRecord) (bool, error) {
		claims, err := parseClaims(v.claims)
		unlike := func(c claim) bool {
			return c.kind != kindDead && c.kind != kindWaiting && (c.kind != k.kind || t.isOfAnother(k, c))
		}
		return slices.ContainsFunc(claims, unlike), err
	})
}

// isOfAnother reports whether a claim of a view stands where one of another kind is now.
func (t *Target) isOfAnother(k *keeper, c claim) bool {
	return t.sink.names != nil && slices.ContainsFunc(t.keepers, func(o *keeper) bool {
		return o != k && o.kind != c.kind && t.sink.names.Makes(o.view, c.key)
	})
}

// takeBack takes away what cells show by earlier definitions of views that are being filled, where which says so. It is
// written as of the generation before the views': what it says of the cells' states counts for none of them.
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

// reclaiming is a target without views yet, to take back what stands in a source's records.
func (t *Target) reclaiming(source string) *Target {
	return &Target{sink: t.sink, source: source, marks: t.marks, memory: newMemory(), reclaims: true}
}

// applyEach applies to every cell that there is a record of in the target's source what of makes of it: values that it
// has no more. They are judged by no version: the target's keepers are of another generation than the states.
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
			op := replicator.Op{Cell: c.cell, Version: replicator.NoVersion, AsOf: 1} // any place does
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

// empty takes back all that cells show in the target's views.
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

// former are the values that take back what a cell shows in those of the views, by earlier definitions, that which
// names.
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
