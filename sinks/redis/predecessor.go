package redis

import (
	"context"
	"fmt"
	"slices"

	"replicator"
)

// A view that gets another name is a new one, and the one before has ended: what it shows stays, as its records say.
// Sums, and members that several cells may claim, would count both for ever. Two views of a configuration never share a
// place: so where one that ended and one of the target's count at one key for one entity, the latter has taken the
// former's place. Once it is filled, what the former counts among its keys is taken back, and the former forgotten: by
// its old name it would be filled anew.

// predecessor is a view that ended and whose place others have taken.
type predecessor struct {
	*keeper
	heirs []*keeper
}

// succeed takes back what the views' predecessors count where they count now.
func (t *Target) succeed(ctx context.Context) error {
	var heirs []*keeper
	for _, k := range t.keepers {
		if counts(k.kind) {
			heirs = append(heirs, k)
		}
	}
	if len(heirs) == 0 || t.sink.names == nil {
		return nil
	}
	ended, err := t.ended(ctx)
	if err != nil || len(ended) == 0 {
		return err
	}
	if ended, err = t.predecessors(ctx, ended, heirs); err != nil || len(ended) == 0 {
		return err
	}
	before := &Target{sink: t.sink, source: t.source, others: t.others, marks: t.marks, memory: newMemory()}
	for _, p := range ended {
		if err := t.sink.forget(ctx, t.source, p.view.Name); err != nil {
			return fmt.Errorf("forgetting view %s, which ended: %w", p.view.Name, err)
		}
		before.views, before.keepers = append(before.views, p.view), append(before.keepers, p.keeper)
	}
	err = before.applyEach(ctx, func(c *cellRecord, r *record) ([]replicator.Value, error) {
		return t.inherit(c, r, ended)
	})
	if err != nil {
		return fmt.Errorf("taking back what a view counted that ended: %w", err)
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
			k := &keeper{view: &replicator.View{Name: name}, id: idOf(name), generation: m.generation(),
				dead: deadKey(t.source, name)}
			ended = append(ended, &predecessor{keeper: k})
		}
	}
	return ended, nil
}

// predecessors are those of the views that ended that count for some entity at a key where one of the heirs does, too.
func (t *Target) predecessors(ctx context.Context, ended []*predecessor, heirs []*keeper) ([]*predecessor, error) {
	err := t.eachRecord(ctx, func(key string, r *record) error {
		for _, p := range ended {
			for _, k := range heirs {
				if slices.Contains(p.heirs, k) {
					continue
				}
				if meet, err := r.meet(p.id, k); err != nil {
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

// meet reports whether the entity counts at one key by a view that ended and by another one.
func (r *record) meet(ended viewID, heir *keeper) (bool, error) {
	for i := range r.cells {
		v := r.cells[i].view(ended)
		if v == nil || !v.contributes() {
			continue
		}
		claims, err := parseClaims(v.claims)
		if err != nil {
			return false, err
		}
		for _, c := range claims {
			if c.kind != heir.kind {
				continue
			}
			if is, err := r.claimsKey(c.kind, c.key, func(id viewID) bool { return id == heir.id }); is || err != nil {
				return is, err
			}
		}
	}
	return false, nil
}

// inherit are the values that take back what a cell counts by predecessors: at keys where its entity counts by an heir,
// too, or that only an heir's key can make, as those of entities that the heir leaves out.
func (t *Target) inherit(c *cellRecord, r *record, ended []*predecessor) (values []replicator.Value, err error) {
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
			meet, err := r.meet(p.id, k)
			if err != nil {
				return nil, err
			}
			if meet || slices.ContainsFunc(claims, func(c claim) bool { return t.isOf(k, c) }) {
				values = append(values, replicator.Value{View: p.index})
				break
			}
		}
	}
	return values, nil
}

// isOf reports whether a claim is at a key that the view's template makes, and no other's.
func (t *Target) isOf(k *keeper, c claim) bool {
	_, ok := t.sink.names.Entities(k.view, c.key)
	return ok && c.kind == k.kind
}
