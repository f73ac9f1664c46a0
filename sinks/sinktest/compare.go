package sinktest

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"replicator"
)

var _ replicator.Comparer = (*referenceTarget)(nil)

// Compare implements replicator.Comparer.
func (t *referenceTarget) Compare(_ context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var differences []replicator.Difference
	for i, op := range ops {
		for _, v := range op.Values {
			want, dead := v.Entries, cmp.Or(v.Err, refused(v))
			if dead != nil {
				want = nil
			}
			p, state := t.state(v.View, op.Cell)
			held := t.sink.held[p]
			d := replicator.Difference{Op: i, View: v.View, State: state, Held: held}
			switch {
			case dead != nil && len(held) == 0:
				d.Kind, d.Err = replicator.Dead, dead
			case len(want) == 0 && len(held) == 0, reflect.DeepEqual(want, held):
				continue
			case len(held) == 0:
				d.Kind = replicator.Missing
			case len(want) == 0:
				d.Kind = replicator.Extra
			default:
				d.Kind = replicator.Stale
			}
			differences = append(differences, d)
		}
	}
	return differences, nil
}

var _ replicator.Mourner = (*referenceTarget)(nil)

// Dead implements replicator.Mourner.
func (t *referenceTarget) Dead(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var cells []replicator.Cell
	for p := range t.sink.dead {
		if p.source == t.source && p.view == t.views[view].Name && p.cell.String() > after {
			cells = append(cells, p.cell)
		}
	}
	slices.SortFunc(cells, func(a, b replicator.Cell) int { return cmp.Compare(a.String(), b.String()) })
	if len(cells) > limit {
		return cells[:limit], cells[limit-1].String(), nil
	}
	return cells, "", nil
}

// Held implements replicator.Comparer.
func (t *referenceTarget) Held(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var cells []replicator.Cell
	for p, entries := range t.sink.held {
		if p.source == t.source && p.view == t.views[view].Name && len(entries) > 0 && p.cell.String() > after {
			cells = append(cells, p.cell)
		}
	}
	slices.SortFunc(cells, func(a, b replicator.Cell) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	if len(cells) > limit {
		cells = cells[:limit]
		return cells, cells[limit-1].String(), nil
	}
	return cells, "", nil
}
