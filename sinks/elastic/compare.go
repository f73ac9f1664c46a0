package elastic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"replicator"
)

// Compare implements replicator.Target. Documents are read in real time, not as of the last refresh.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	b := &batch{target: t, ops: ops}
	b.gather()
	if err := t.sink.client.read(ctx, b.documents); err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	var differences []replicator.Difference
	for _, r := range b.rejected { // no document can be there
		differences = append(differences, replicator.Difference{Op: r.Op, View: r.View, Kind: replicator.Dead, State: replicator.Unseen, Err: r.Err})
	}
	for _, d := range b.documents {
		some, err := d.compare()
		if err != nil {
			return nil, err
		}
		differences = append(differences, some...)
	}
	return differences, nil
}

// compare returns where a document is not what its changes make, all of its cells being among them; or else which of
// them are dead.
func (d *document) compare() (differences []replicator.Difference, err error) {
	k, first := d.keeper, d.changes[0]
	known := contents{}
	if d.exists {
		var err error
		if known, err = k.parse(d.source); err != nil {
			known = contents{} // whatever it is, it is not what it should be
		}
	}
	want := contents{}
	for _, c := range d.changes {
		w, s := &slot{key: c.do.Cell.Key, present: c.present, fields: c.fields}, known[c.slot]
		why := cmp.Or(c.failed, c.bad)
		if why != nil || w.present && s.refused(c.do) {
			w.present, w.fields = false, nil // the index refused it, if there is no other reason
			dead := replicator.Difference{Op: c.op, View: c.view, Kind: replicator.Dead, State: replicator.Unseen, Err: why}
			if s != nil {
				dead.State = s.state
			}
			differences = append(differences, dead)
		}
		want[c.slot] = w
	}
	held, hidden, err := k.shown(d)
	if err != nil {
		return nil, err
	}
	expected, expectHidden, err := k.shown(&document{exists: true, source: k.render(nil, want)})
	if err != nil {
		return nil, err
	}
	result := replicator.Difference{Op: first.op, View: first.view, State: replicator.Unseen, Name: d.id}
	if s := known[first.slot]; s != nil {
		result.State = s.state
	}
	if !hidden {
		result.Held = []replicator.Entry{{Key: d.id, Fields: make([]any, len(held))}}
		for i, f := range held {
			if f != nil {
				result.Held[0].Fields[i] = replicator.RawJSON(f)
			}
		}
	}
	switch {
	case hidden && expectHidden:
		return differences, nil
	case expectHidden:
		result.Kind = replicator.Extra
	case hidden:
		result.Kind = replicator.Missing
	default:
		for i, f := range expected {
			if !bytes.Equal(f, held[i]) {
				result.Kind = replicator.Stale
			}
		}
		if result.Kind == "" {
			return differences, nil
		}
	}
	return []replicator.Difference{result}, nil
}

// refused reports whether the index refused what a look finds: as the slot says, or would have said if slots told such
// things then.
func (s *slot) refused(look replicator.Op) bool {
	return s != nil && !s.present && (s.dead && s.state.Covers(look) || s.state.Version == look.Version)
}

// shown are the fields that a document shows, in the order of the view's; hidden if it is none that the alias shows.
func (k *keeper) shown(d *document) (fields [][]byte, hidden bool, err error) {
	if !d.exists {
		return nil, true, nil
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(d.source, &top); err != nil {
		return nil, false, fmt.Errorf("view %s: a document can't be read: %w", k.view.Name, err)
	}
	var state struct {
		Hidden bool `json:"hidden"`
	}
	if text := top[stateField]; text != nil && json.Unmarshal(text, &state) == nil && state.Hidden {
		return nil, true, nil
	}
	return k.fieldsOf(top), false, nil
}

// Held implements replicator.Target. A document that somebody else put there has no cell: see Strays.
func (t *Target) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.sweep(ctx, view, after, limit, func(s *slot) bool { return true })
}
