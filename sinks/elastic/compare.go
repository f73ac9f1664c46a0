package elastic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// Compare implements replicator.Target. Documents are read in real time, not as of the last refresh.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) (differences []replicator.Difference, err error) {
	err = t.throughGates(ctx, func() (err error) {
		differences, err = t.compare(ctx, ops)
		return err
	})
	return differences, err
}

func (t *Target) compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	b := t.gather(ops)
	var differences []replicator.Difference
	for i := range b.unplaced {
		differences = append(differences, b.dead(&b.unplaced[i], judge.Unseen))
	}
	for _, d := range b.documents {
		d.whole = true
	}
	return differences, t.sink.client.inParts(b.documents, func(part []*document) error {
		if err := t.sink.client.read(ctx, part); err != nil {
			return fmt.Errorf("comparing: %w", err)
		}
		for _, d := range part {
			some, err := b.compare(d)
			if err != nil {
				return err
			}
			differences = append(differences, some...)
			d.release()
		}
		return nil
	})
}

// dead returns a Difference of kind Dead, for a change whose cell is, or must be, a dead letter.
func (b *batch) dead(c *change, known judge.Known) replicator.Difference {
	v := b.ops[c.op].Values[c.value]
	why := cmp.Or(v.Err, c.bad)
	return replicator.Difference{Op: c.op, View: v.View, Kind: replicator.Dead, States: []replicator.State{known.State}, Err: why}
}

// compare compares a document with what the batch's changes of the document require. The changes must cover all cells
// that this source has in the document; cells of other sources count as right. If the document is wrong, compare
// returns one Difference for the whole document. Otherwise it returns one for each change whose cell is a dead letter.
func (b *batch) compare(d *document) (differences []replicator.Difference, err error) {
	k := d.keeper
	stands := d.contents()
	wanted, own := b.target.others(k, stands), false
	var states []replicator.State
	for i := range d.changes {
		c := &d.changes[i]
		w, known := &c.slot, stands.known(c.slot.name)
		states = append(states, known.State)
		fellows, _ := b.target.fellows(stands, w)
		if err := judge.Claimed(b.ops[c.op], fellows); err != nil {
			c.bad, w.Dead = err, true
		}
		// a value that can't be computed or stored, or that the index has refused
		if w.Dead || w.Shown && known.Refused(b.ops[c.op]) {
			w.Shown = false
			differences = append(differences, b.dead(c, known))
		}
		wanted, own = wanted.set(w), own || w.Shown
	}
	k.sort(wanted)
	text := k.render(nil, wanted)
	want, err := k.shown(text)
	if err != nil {
		return nil, err
	}
	held, err := k.shown(d.source)
	if err != nil {
		return nil, err
	}
	first := &d.changes[0]
	right := slices.EqualFunc(want, held, bytes.Equal) && b.target.remembers(stands, k.parse(text)) &&
		!b.target.lingers(k, stands, wanted)
	if i := slices.IndexFunc(d.changes, func(c change) bool {
		return stands.known(c.slot.name).Beyond(b.ops[c.op])
	}); i >= 0 && own {
		first, right = &d.changes[i], false
	}
	kind := judge.Difference(want != nil, held != nil, right)
	if kind == "" {
		return differences, nil
	}
	wrong := replicator.Difference{Op: first.op, View: k.place, Kind: kind, States: states, Name: d.id}
	if held != nil {
		wrong.Held = []replicator.Entry{{Key: d.id, Fields: make([]any, len(held))}}
		for i, f := range held {
			if f != nil {
				wrong.Held[0].Fields[i] = replicator.RawJSON(f)
			}
		}
	}
	return []replicator.Difference{wrong}, nil
}

// others returns the document's cells that come from other sources. An entity may have moved to another source. Then
// the document is right, although this source has no row for it.
func (t *Target) others(k *keeper, stands contents) (others contents) {
	if !k.merged { // the document has one cell, and the next op replaces everything else in it
		return nil
	}
	for _, s := range stands {
		if from, _, ok := t.sink.cell(s); ok && from != t.source {
			others = append(others, s)
		}
	}
	return others
}

// lingers reports whether a document still has a contribution of this source that should be gone. The document may show
// the right fields now, because other sources contribute the same. But it would still show them after the other
// sources' contributions are gone.
func (t *Target) lingers(k *keeper, stands, wanted contents) bool {
	return k.merged && slices.ContainsFunc(stands, func(s *slot) bool {
		from, _, ok := t.sink.cell(s)
		if !ok || from != t.source || !s.Shown {
			return false
		}
		w := wanted.find(s.name)
		return w != nil && !w.Shown
	})
}

// remembers reports whether a document's state lists each cell that the document should show, with its contribution.
// Otherwise the document would not change when a cell is deleted, or would show wrong fields after a cell changes.
func (t *Target) remembers(stands, wanted contents) bool {
	return !slices.ContainsFunc(wanted, func(w *slot) bool {
		if !w.Shown {
			return false
		}
		s := stands.find(w.name)
		if s == nil {
			return true
		}
		_, _, ok := t.sink.cell(s)
		return !ok || !slices.EqualFunc(s.fields, w.fields, bytes.Equal)
	})
}

// shown returns the fields that a document shows, in the view's order; nil if there is no document or the alias hides
// it.
func (k *keeper) shown(source []byte) ([][]byte, error) {
	if source == nil {
		return nil, nil
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(source, &top); err != nil {
		return nil, fmt.Errorf("view %s: a document can't be read: %w", k.view.Name, err)
	}
	var state struct {
		Hidden bool `json:"hidden"`
	}
	if text := top[stateField]; text != nil && json.Unmarshal(text, &state) == nil && state.Hidden {
		return nil, nil
	}
	return k.fieldsOf(top), nil
}
