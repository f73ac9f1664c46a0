package redis

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"replicator"
)

// A view that gets another name is a new one, and the one before has ended: what it shows stays, as its records say.
// Sums, and members that several cells may claim, would count both for ever, and what changes while the one before is
// kept no more would stay beside what the new one shows. Two views of a configuration never share a place: so one that
// ended has lost its own to another where both show something of one entity at one key, or where it shows something at
// a key that the other's template makes. Once that one is filled, what the former shows there is taken back where the
// latter does not show the same, and the former forgotten: by its old name it would be filled anew.
//
// What is of another kind goes before anything is applied, as with views that are defined anew.

// predecessor is a view that ended and whose place others have taken.
type predecessor struct {
	*keeper
	heirs []*keeper
}

// kinship reports whether a claim of a view that ended, in an entity's record, stands where one of the views is.
type kinship func(r *record, c claim, heir *keeper) (bool, error)

// succeed takes back what the views' predecessors show where they are now.
func (t *Target) succeed(ctx context.Context) error {
	return t.reclaimEnded(ctx, func(r *record, c claim, heir *keeper) (bool, error) {
		if c.kind != heir.kind {
			return false, nil
		}
		if _, is := t.sink.names.Entities(heir.view, c.key); is {
			return true, nil
		}
		return r.claimsKey(c.kind, c.key, func(id viewID) bool { return slices.Contains(heir.ids, id) })
	})
}

// makeRoomOfEnded takes back what is of another kind than the views' things are, whose names stand there now.
func (t *Target) makeRoomOfEnded(ctx context.Context) error {
	return t.reclaimEnded(ctx, func(_ *record, c claim, heir *keeper) (bool, error) {
		_, is := t.sink.names.Entities(heir.view, c.key)
		return is && c.kind != heir.kind && c.kind != kindDead, nil
	})
}

// reclaimEnded takes back what views show that ended and have lost their place.
func (t *Target) reclaimEnded(ctx context.Context, is kinship) error {
	if t.sink.names == nil {
		return nil
	}
	ended, err := t.ended(ctx)
	if err != nil || len(ended) == 0 {
		return err
	}
	if ended, err = t.predecessors(ctx, ended, is); err != nil || len(ended) == 0 {
		return err
	}
	before := t.reclaiming(t.source)
	for _, p := range ended {
		if err := t.sink.forget(ctx, t.source, p.view.Name, storedMark{Succeeded: true}); err != nil {
			return fmt.Errorf("forgetting view %s, which ended: %w", p.view.Name, err)
		}
		before.views, before.keepers = append(before.views, p.view), append(before.keepers, p.keeper)
	}
	err = before.applyEach(ctx, func(c *cellRecord, r *record) ([]replicator.Value, error) {
		return t.inherit(c, r, ended, is)
	})
	if err != nil {
		return fmt.Errorf("taking back what a view showed that ended: %w", err)
	}
	return nil
}

// ended are the views that the sink has marks of, and that are in the configuration no more. What is applied by their
// keepers is of a generation above all that there were: none of their states counts.
func (t *Target) ended(ctx context.Context) (ended []*predecessor, err error) {
	marks, err := t.sink.readMarks(ctx, t.source)
	if err != nil {
		return nil, err
	}
	for name, m := range marks {
		if !t.sink.names.Has(name) {
			k := &keeper{view: &replicator.View{Name: name}, generation: m.generation(), disowned: new(atomic.Uint64)}
			k.feedBy(t.source, nil)
			ended = append(ended, &predecessor{keeper: k})
		}
	}
	return ended, nil
}

// predecessors are those of the views that ended that have lost their place to some of the target's.
func (t *Target) predecessors(ctx context.Context, ended []*predecessor, is kinship) ([]*predecessor, error) {
	err := t.eachRecord(ctx, func(key string, r *record) error {
		for _, p := range ended {
			for _, k := range t.keepers {
				if slices.Contains(p.heirs, k) {
					continue
				}
				if meet, err := r.meet(p, k, is); err != nil {
					return replicator.Fatal(fmt.Errorf("%s: %w", key, err))
				} else if meet {
					p.heirs = append(p.heirs, k)
				}
			}
		}
		return nil
	})
	none := func(p *predecessor) bool { return len(p.heirs) == 0 }
	ended = slices.DeleteFunc(ended, none)
	for i, p := range ended {
		p.index = i
	}
	return ended, err
}

// meet reports whether the entity shows something by a view that ended where another one is.
func (r *record) meet(ended *predecessor, heir *keeper, is kinship) (bool, error) {
	for i := range r.cells {
		v := r.cells[i].view(ended.id)
		if v == nil || !v.contributes() {
			continue
		}
		claims, err := parseClaims(v.claims)
		if err != nil {
			return false, err
		}
		for _, c := range claims {
			if is, err := is(r, c, heir); is || err != nil {
				return is, err
			}
		}
	}
	return false, nil
}

// inherit are the values that take back what a cell shows by predecessors: where its entity shows something by an heir,
// too, or that an heir's key can make, as those of entities that the heir leaves out.
func (t *Target) inherit(
	c *cellRecord, r *record, ended []*predecessor, is kinship,
) (values []replicator.Value, err error) {
	for _, p := range ended {
		v := c.view(p.id)
		if v == nil || !v.contributes() {
			continue
		}
		claims, err := parseClaims(v.claims)
		if err != nil {
			return nil, err
		}
		for _, k := range p.heirs {
			meet, err := r.meet(p, k, is)
			if err != nil {
				return nil, err
			}
			if meet || slices.ContainsFunc(claims, func(c claim) bool { return t.sink.names.Makes(k.view, c.key) }) {
				values = append(values, replicator.Value{View: p.index})
				break
			}
		}
	}
	return values, nil
}
