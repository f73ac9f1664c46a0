package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

var (
	_ replicator.Shadower = (*Reference)(nil)
	_ replicator.Sourced  = (*Reference)(nil)
	_ replicator.Tidier   = (*memoryTarget)(nil)

	_ replicator.Forgetter = (*memoryTarget)(nil)
)

// Shadow returns the definition of a view's shadow: a copy that a rebuild fills before it replaces the view.
func (r *Reference) Shadow(v *replicator.View) *replicator.View {
	shadow := *v
	shadow.Name, shadow.Shadows = v.Name+replicator.ShadowSuffix, v.Name
	return &shadow
}

// Foreign returns "": nothing in memory prevents a view from being rebuilt in a shadow (copy).
func (r *Reference) Foreign(context.Context, *replicator.View) (string, error) { return "", nil }

// Swap replaces the views by their shadows (rebuilt copies). If a view has no shadow, Swap changes nothing.
func (r *Reference) Swap(_ context.Context, source string, views []*replicator.View) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refused []error
	for _, v := range views {
		if _, ok := r.marks[mark{source, v.Name + replicator.ShadowSuffix}]; !ok {
			err := replicator.Fatal(fmt.Errorf("view %s has no shadow to swap in", v.Name))
			refused = append(refused, replicator.OfView(err, v.Name))
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	for _, v := range views {
		r.drop(v.Name)
		shadow := v.Name + replicator.ShadowSuffix
		for p, known := range maps.Clone(r.cells) {
			if p.view == shadow {
				to := place{p.source, v.Name, p.cell}
				if r.cells[to] = known; len(r.held[p]) > 0 {
					r.held[to] = r.held[p]
				}
			}
		}
		for k, m := range maps.Clone(r.marks) {
			if k.view == shadow {
				horizon := r.horizons[k]
				k.view, m.View = v.Name, v.Name
				r.marks[k], r.horizons[k] = m, horizon
			}
		}
		r.drop(shadow)
	}
	return nil
}

// Discard deletes the shadows (rebuilt copies) of the views.
func (r *Reference) Discard(_ context.Context, views []*replicator.View) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range views {
		r.drop(v.Name + replicator.ShadowSuffix)
	}
	return nil
}

// Unclaimed lists the cells that a view shows although the sink has no state for them.
func (t *memoryTarget) Unclaimed(
	_ context.Context, view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var cells []replicator.Cell
	for p := range t.sink.held {
		if _, known := t.sink.cells[p]; !known && p.source == t.source && p.view == t.views[view].Name {
			cells = append(cells, p.cell)
		}
	}
	cells, next := pageOf(cells, after, limit)
	return cells, next, nil
}

// Strays lists the view's entries whose cells have no state. Each is named after its cell, because this sink stores
// every entry under a cell.
func (t *memoryTarget) Strays(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	cells, next, err := t.Unclaimed(ctx, view, after, limit)
	for _, c := range cells {
		strays = append(strays, replicator.Stray{Name: c.String(), At: c.String(), Kind: replicator.Extra})
	}
	return strays, next, err
}

// Tidy removes strays, except those whose cells have a state by now.
func (t *memoryTarget) Tidy(_ context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	for p := range maps.Clone(t.sink.held) {
		_, known := t.sink.cells[p]
		named := slices.ContainsFunc(strays, func(s replicator.Stray) bool { return s.At == p.cell.String() })
		if named && !known && p.source == t.source && p.view == t.views[view].Name {
			delete(t.sink.held, p)
			removed++
		}
	}
	return removed, nil
}

// RaiseHorizon raises the log position below which deletes may be forgotten. It is never above a view's mark, and does
// not rise during a view's fill.
func (t *memoryTarget) RaiseHorizon(_ context.Context, horizon int64) error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	for _, v := range t.views {
		k := mark{t.source, v.Name}
		if m, ok := t.sink.marks[k]; ok && !m.Filling() {
			t.sink.horizons[k] = max(t.sink.horizons[k], min(horizon, m.Position.Order))
		}
	}
	return nil
}

// ForgetGone forgets the deleted cells whose deletes are all below the horizons. It examines all cells in one call.
func (t *memoryTarget) ForgetGone(
	context.Context, string, int,
) (found replicator.GoneCells, next string, err error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	kept, gone, lives := map[replicator.Cell]bool{}, map[replicator.Cell]bool{}, map[replicator.Cell]bool{}
	for p, known := range t.sink.cells {
		if p.source == t.source {
			known.Shown = len(t.sink.held[p]) > 0
			may := known.Forgettable(t.sink.horizons[mark{p.source, p.view}])
			kept[p.cell], gone[p.cell] = kept[p.cell] || !may, true
			lives[p.cell] = lives[p.cell] || !known.Forgettable(math.MaxInt64)
		}
	}
	maps.DeleteFunc(gone, func(c replicator.Cell, _ bool) bool { return kept[c] })
	maps.DeleteFunc(t.sink.cells, func(p place, _ judge.Known) bool { return p.source == t.source && gone[p.cell] })
	maps.DeleteFunc(kept, func(c replicator.Cell, kept bool) bool { return !kept || lives[c] })
	return replicator.GoneCells{Forgotten: len(gone), Remembered: len(kept)}, "", nil
}

// Remembered returns the number of cells that the sink knows something about.
func (r *Reference) Remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells := map[replicator.Cell]bool{}
	for p := range r.cells {
		cells[p.cell] = true
	}
	return len(cells)
}

// Plant adds entries to what a view shows for a cell. Like a write by hand, it leaves the cell's state alone.
func (r *Reference) Plant(v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{view: v.Name, cell: c}
	r.held[p] = append(slices.Clone(r.held[p]), entries...)
}

// Remove removes entries from what a view shows for a cell. Like a delete by hand, it leaves the cell's state alone.
func (r *Reference) Remove(v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{view: v.Name, cell: c}
	left := slices.DeleteFunc(slices.Clone(r.held[p]), func(e replicator.Entry) bool {
		return slices.ContainsFunc(entries, func(gone replicator.Entry) bool { return reflect.DeepEqual(e, gone) })
	})
	if r.held[p] = left; len(left) == 0 {
		delete(r.held, p)
	}
}

// Corrupt replaces what a view holds for a cell, or removes it, without changing the cell's state.
func (r *Reference) Corrupt(source, view string, cell replicator.Cell, entries []replicator.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{source: source, view: view, cell: cell}
	if delete(r.held, p); len(entries) > 0 {
		r.held[p] = entries
	}
	if _, known := r.cells[p]; !known {
		r.cells[p] = judge.Unseen
	}
}

func (r *Reference) drop(view string) {
	maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
	maps.DeleteFunc(r.horizons, func(m mark, _ int64) bool { return m.view == view })
	maps.DeleteFunc(r.cells, func(p place, _ judge.Known) bool { return p.view == view })
	maps.DeleteFunc(r.held, func(p place, _ []replicator.Entry) bool { return p.view == view })
}

// Read returns a view's content in the form that Subject.Read describes.
func (r *Reference) Read(v *replicator.View) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var from []contribution
	for p, entries := range r.held {
		if p.view == v.Name {
			from = append(from, contribution{p.cell, entries})
		}
	}
	return contents(v, from)
}

// SetMark changes a view's mark, or removes it if `at` is nil.
func (r *Reference) SetMark(source, view string, at *replicator.Standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := mark{source, view}
	if at == nil {
		delete(r.marks, k)
		return
	}
	m := r.marks[k]
	m.Standing = *at
	r.marks[k] = m
}

// Snapshot copies everything that the sink holds, as a backup or a replica does. restore puts it back.
func (r *Reference) Snapshot() (restore func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells, held, marks := maps.Clone(r.cells), maps.Clone(r.held), maps.Clone(r.marks)
	horizons := maps.Clone(r.horizons)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cells, r.held, r.marks = maps.Clone(cells), maps.Clone(held), maps.Clone(marks)
		r.horizons = maps.Clone(horizons)
	}
}

// Sources returns the sources that have marks in the sink.
func (r *Reference) Sources(context.Context) (sources []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.marks {
		sources = append(sources, k.source)
	}
	return sources, nil
}

// Empty removes everything that the sink holds.
func (r *Reference) Empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cells)
	clear(r.held)
	clear(r.marks)
	clear(r.horizons)
}

// Refused is a value that a Reference rejects, as a database rejects a value of the wrong type.
type Refused struct{}

func refused(v replicator.Value) error {
	for _, e := range v.Entries {
		for _, f := range e.Fields {
			if _, ok := f.(Refused); ok {
				return fmt.Errorf("the reference sink rejects this value")
			}
		}
	}
	return nil
}
