package sinktest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"replicator"
)

// Reference is a sink in memory, safe for concurrent use: the complete example that docs/sinks.md goes through.
type Reference struct {
	mu    sync.Mutex
	next  func(replicator.State, replicator.Op) (replicator.State, bool) // State.Next, but where the suite itself is tested
	cells map[place]record
	held  map[place][]replicator.Entry // what each cell contributes: what readers see
	marks map[mark]replicator.Mark
}

// place is a cell's place in a view.
type place struct {
	source, view string
	cell         replicator.Cell
}

// record is what the sink knows of a cell in a view. It outlives the cell.
type record struct {
	state replicator.State
	dead  bool // what was applied last could not be computed or held: it contributes nothing
}

type mark struct{ source, view string }

// NewReference returns an empty sink.
func NewReference() *Reference {
	return &Reference{
		next: replicator.State.Next, cells: map[place]record{}, held: map[place][]replicator.Entry{}, marks: map[mark]replicator.Mark{},
	}
}

// Open implements replicator.Sink.
func (r *Reference) Open(_ context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &referenceTarget{sink: r, source: source, views: views, marked: map[string]replicator.Standing{}}
	for _, v := range views {
		k := mark{source, v.Name}
		if m, ok := r.marks[k]; !ok || m.Fingerprint != v.Fingerprint {
			if ok { // another definition: what is known of the old one says nothing about it
				maps.DeleteFunc(r.cells, func(p place, _ record) bool { return p.source == source && p.view == v.Name })
				maps.DeleteFunc(r.held, func(p place, _ []replicator.Entry) bool { return p.source == source && p.view == v.Name })
			}
			// A view that was opened and never marked is being filled, as far as anybody knows.
			never := replicator.Standing{Fill: map[string]replicator.Progress{}}
			r.marks[k] = replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: never}
		}
		t.marked[v.Name] = r.marks[k].Standing
	}
	return t, nil
}

// Marks implements replicator.Sink.
func (r *Reference) Marks(_ context.Context, source string) ([]replicator.Mark, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var marks []replicator.Mark
	for k, m := range r.marks {
		if k.source == source {
			marks = append(marks, m)
		}
	}
	return marks, nil
}

// Forget implements replicator.Sink. Entries stay, as they do in a table, until an op on their cell replaces them.
func (r *Reference) Forget(_ context.Context, view string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
	for p := range r.cells {
		if p.view == view {
			r.cells[p] = record{state: replicator.Unseen}
		}
	}
	return nil
}

// Close implements replicator.Sink.
func (r *Reference) Close() error { return nil }

// referenceTarget is the views of one pipeline.
type referenceTarget struct {
	sink   *Reference
	source string
	views  []*replicator.View
	marked map[string]replicator.Standing // of each view, as this target saw or marked it last
}

// known is what the sink knows of a cell in a view, and where.
func (t *referenceTarget) known(view int, c replicator.Cell) (place, record) {
	p := place{t.source, t.views[view].Name, c}
	if known, ok := t.sink.cells[p]; ok {
		return p, known
	}
	return p, record{state: replicator.Unseen}
}

// Apply implements replicator.Target. The lock makes of each op one atomic act.
func (t *referenceTarget) Apply(_ context.Context, ops []replicator.Op) (replicator.Applied, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var applied replicator.Applied
	for i, op := range ops {
		stale, dead := len(op.Values) > 0, []replicator.ValueAt(nil)
		for _, v := range op.Values {
			p, known := t.known(v.View, op.Cell)
			next, newer := t.sink.next(known.state, op)
			known.state = next
			if newer {
				stale = false
				err := refused(v)
				if err != nil {
					applied.Rejected = append(applied.Rejected, replicator.Rejected{Op: i, View: v.View, Err: err})
				}
				known.dead = err != nil || v.Err != nil
				if delete(t.sink.held, p); !known.dead && len(v.Entries) > 0 {
					t.sink.held[p] = v.Entries
				}
			} else if known.dead {
				dead = append(dead, replicator.ValueAt{Op: i, View: v.View})
			}
			t.sink.cells[p] = known
		}
		if stale {
			applied.Stale, applied.Dead = append(applied.Stale, i), append(applied.Dead, dead...)
		}
	}
	return applied, nil
}

// Versions implements replicator.Target.
func (t *referenceTarget) Versions(_ context.Context, cells []replicator.Cell) ([]int64, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	versions := make([]int64, len(cells))
	for i, c := range cells {
		var of []int64
		for n, v := range t.views {
			if v.Feeds(c) {
				_, known := t.known(n, c)
				of = append(of, known.state.Version)
			}
		}
		if versions[i] = replicator.NoVersion; len(of) > 0 {
			versions[i] = slices.Min(of)
		}
	}
	return versions, nil
}

// Mark implements replicator.Target.
func (t *referenceTarget) Mark(_ context.Context, at replicator.Standing) error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	for _, v := range t.views {
		m, ok := t.sink.marks[mark{t.source, v.Name}]
		if !ok || m.Fingerprint != v.Fingerprint || m.Below(t.marked[v.Name]) {
			return fmt.Errorf("reference: the mark of view %s fell or is gone: %w", v.Name, replicator.ErrSinkLost)
		}
	}
	for _, v := range t.views {
		k := mark{t.source, v.Name}
		m := t.sink.marks[k]
		m.Standing = m.Raise(at)
		m.Fill = maps.Clone(m.Fill)
		t.sink.marks[k], t.marked[v.Name] = m, m.Standing
	}
	return nil
}

// Compare implements replicator.Target.
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
			p, known := t.known(v.View, op.Cell)
			held := t.sink.held[p]
			d := replicator.Difference{Op: i, View: v.View, State: known.state, Held: held}
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

// Outdated implements replicator.Target.
func (t *referenceTarget) Outdated(_ context.Context, before int64, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, known record) bool {
		shown := known.state.Version != replicator.NoVersion || len(t.sink.held[p]) > 0
		return shown && max(known.state.Order, known.state.AsOf) < before &&
			slices.ContainsFunc(t.views, func(v *replicator.View) bool { return v.Name == p.view })
	})
}

// Dead implements replicator.Target.
func (t *referenceTarget) Dead(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, known record) bool { return known.dead && p.view == t.views[view].Name })
}

// Held implements replicator.Target.
func (t *referenceTarget) Held(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, _ record) bool { return len(t.sink.held[p]) > 0 && p.view == t.views[view].Name })
}

// page gives the cells after one, in an order that is the same at every call.
func (t *referenceTarget) page(after string, limit int, wanted func(place, record) bool) (cells []replicator.Cell, next string, err error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	for p, known := range t.sink.cells {
		if p.source == t.source && p.cell.String() > after && wanted(p, known) {
			cells = append(cells, p.cell)
		}
	}
	slices.SortFunc(cells, func(a, b replicator.Cell) int { return cmp.Compare(a.String(), b.String()) })
	if cells = slices.Compact(cells); len(cells) <= limit {
		return cells, "", nil
	}
	return cells[:limit], cells[limit-1].String(), nil
}
