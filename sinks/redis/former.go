package redis

import (
	"context"
	"fmt"
	"slices"

	"replicator"
)

// What cells put into a view by an earlier definition of it stands in their records. Those that feed it still have it
// replaced when they are applied next: by the fill, if not before. That is not enough in two cases:
//
//   - Of another kind: what stood under a key would keep the view's own things from it (a hash where a JSON object is to
//     be), or, of the same type in Redis, be taken away after another entity has put something there. It goes before
//     anything is applied: Open.
//   - Of cells that feed the view no more, whom nobody applies again: it goes after the fill: Relinquish.

var _ replicator.Relinquisher = (*Target)(nil)

// Relinquish implements replicator.Relinquisher.
func (t *Target) Relinquish(ctx context.Context) error {
	err := t.takeBack(ctx, func(k *keeper, c *cellRecord, _ *viewRecord) (bool, error) {
		return !k.view.Feeds(c.cell), nil
	})
	if err == nil {
		err = t.succeed(ctx)
	}
	if err == nil {
		err = t.vacate(ctx)
	}
	if err != nil {
		return err
	}
	return t.recall(ctx)
}

// makeRoom takes back what is of another kind than the views' things are now.
func (t *Target) makeRoom(ctx context.Context) error {
	return t.takeBack(ctx, func(k *keeper, _ *cellRecord, v *viewRecord) (bool, error) {
		claims, err := parseClaims(v.claims)
		unlike := func(c claim) bool { return c.kind != k.kind && c.kind != kindDead }
		return slices.ContainsFunc(claims, unlike), err
	})
}

// takeBack takes away what cells show by earlier definitions of views that are being filled, where which says so. It is
// written as of the generation before the views': what it says of the cells' states counts for none of them.
func (t *Target) takeBack(ctx context.Context, which func(*keeper, *cellRecord, *viewRecord) (bool, error)) error {
	if !slices.ContainsFunc(t.keepers, func(k *keeper) bool { return k.former }) {
		return nil
	}
	before := &Target{sink: t.sink, source: t.source, others: t.others, views: t.views, marks: t.marks, memory: newMemory()}
	for _, k := range t.keepers {
		earlier := *k
		earlier.generation--
		before.keepers = append(before.keepers, &earlier)
	}
	return t.eachRecord(ctx, func(keys []string, records []*record) error {
		var ops []replicator.Op
		for i, r := range records {
			for n := range r.cells {
				op, err := t.former(&r.cells[n], which)
				if err != nil {
					return replicator.Fatal(fmt.Errorf("%s: %w", keys[i], err))
				}
				if len(op.Values) > 0 {
					ops = append(ops, op)
				}
			}
		}
		if len(ops) == 0 {
			return nil
		}
		if _, err := before.Apply(ctx, ops); err != nil {
			return fmt.Errorf("taking back what an earlier definition put there: %w", err)
		}
		return nil
	})
}

// takeBackAll takes back all that cells show by the target's keepers, which are of a generation above all that there
// were: none of the cells' states counts.
func (t *Target) takeBackAll(ctx context.Context) error {
	return t.eachRecord(ctx, func(_ []string, records []*record) error {
		var ops []replicator.Op
		for _, r := range records {
			for i := range r.cells {
				op := replicator.Op{Cell: r.cells[i].cell, Version: replicator.NoVersion, AsOf: 1} // any place does
				for _, k := range t.keepers {
					if v := r.cells[i].view(k.id); v != nil && v.claims != "" {
						op.Values = append(op.Values, replicator.Value{View: k.index})
					}
				}
				if len(op.Values) > 0 {
					ops = append(ops, op)
				}
			}
		}
		_, err := t.Apply(ctx, ops)
		return err
	})
}

// eachRecord goes through all records of the source, a page at a time.
func (t *Target) eachRecord(ctx context.Context, do func(keys []string, records []*record) error) error {
	for after := ""; ; {
		keys, next, err := t.sink.scan(ctx, recordKey(t.source, ""), "", after, 500)
		if err != nil {
			return classify(err, "looking through the records")
		}
		records, err := t.sink.records(ctx, keys)
		if err == nil {
			err = do(keys, records)
		}
		if err != nil {
			return err
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// former is the op that takes back what a cell shows in those of the views, by earlier definitions, that which names.
func (t *Target) former(c *cellRecord, which func(*keeper, *cellRecord, *viewRecord) (bool, error)) (replicator.Op, error) {
	op := replicator.Op{Cell: c.cell, Version: replicator.NoVersion, AsOf: 1} // any place does: the state doesn't count
	for i, k := range t.keepers {
		v := c.view(k.id)
		if !k.former || v == nil || v.claims == "" || v.generation == k.generation {
			continue
		}
		if is, err := which(k, c, v); err != nil {
			return op, err
		} else if is {
			op.Values = append(op.Values, replicator.Value{View: i})
		}
	}
	return op, nil
}
