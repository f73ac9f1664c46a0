package sinktest

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"replicator"
	"replicator/sinks/judge"
)

// Reference is an in-memory sink, safe for concurrent use. It is the complete example that docs/sinks.md explains.
type Reference struct {
	mu    sync.Mutex
	rule  judge.Rule                   // State.Next, except when the suite itself is tested
	cells map[place]judge.Known        // what the sink knows about each cell in a view, also about deleted cells
	held  map[place][]replicator.Entry // the entries that readers see
	waits map[place][]replicator.Entry // entries not shown while the view shows another source's row of the key
	marks map[mark]replicator.Mark

	horizons map[mark]int64 // cells deleted below this log position may have been forgotten
	blind    bool           // for tests of the suite itself: the sink ignores its horizons
}

type place struct {
	source, view string
	cell         replicator.Cell
}

type mark struct{ source, view string }

// NewReference returns an empty in-memory sink.
func NewReference() *Reference {
	return &Reference{
		rule: replicator.State.Next, cells: map[place]judge.Known{},
		held: map[place][]replicator.Entry{}, waits: map[place][]replicator.Entry{}, marks: map[mark]replicator.Mark{},
		horizons: map[mark]int64{},
	}
}

// Open returns a target for views. A view with a new definition loses the states and entries that `source` gave it.
func (r *Reference) Open(_ context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	marked := make([]replicator.Standing, len(views))
	for i, v := range views {
		k := mark{source, v.Name}
		if m, ok := r.marks[k]; !ok || m.Fingerprint != v.Fingerprint {
			if ok { // the definition changed, so the old states say nothing about the view
				maps.DeleteFunc(r.cells, func(p place, _ judge.Known) bool { return p.source == source && p.view == v.Name })
				maps.DeleteFunc(r.held, func(p place, _ []replicator.Entry) bool { return p.source == source && p.view == v.Name })
				delete(r.horizons, k)
			}
			// A view that was opened and never marked counts as being filled.
			never := replicator.Standing{Fill: map[string]replicator.Progress{}}
			r.marks[k] = replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: never}
		}
		marked[i] = r.marks[k].Standing
	}
	return &memoryTarget{sink: r, source: source, views: views, marks: judge.NewMarks(views, marked, "")}, nil
}

// Marks returns the marks of all views that a source feeds.
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

// Forget removes a view's states and marks. Entries stay, as in a table, until an op on their cell replaces them.
func (r *Reference) Forget(_ context.Context, view string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
	maps.DeleteFunc(r.horizons, func(m mark, _ int64) bool { return m.view == view })
	for p := range r.cells {
		if p.view == view {
			r.cells[p] = judge.Unseen
		}
	}
	return nil
}

func (r *Reference) Close() error { return nil }

type memoryTarget struct {
	sink   *Reference
	source string
	views  []*replicator.View
	marks  *judge.Marks
}

// known returns the key of a cell in the sink's maps, and what the sink knows about the cell in a view.
func (t *memoryTarget) known(view int, c replicator.Cell) (place, judge.Known) {
	p := place{t.source, t.views[view].Name, c}
	known, ok := t.sink.cells[p]
	if !ok {
		known = judge.Unseen
	}
	known.Shown = len(t.sink.held[p]) > 0
	if !t.sink.blind {
		known.Horizon = t.sink.horizons[mark{t.source, p.view}]
	}
	return p, known
}

// Apply writes ops to the views. The lock makes each op atomic.
func (t *memoryTarget) Apply(_ context.Context, ops []replicator.Op) (replicator.Applied, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	batch := judge.NewBatchBy(t.sink.rule, ops)
	for i, op := range ops {
		known := func(value int) judge.Known {
			_, known := t.known(op.Values[value].View, op.Cell)
			return known
		}
		if batch.Unknown(i, known) {
			continue
		}
		for n, v := range op.Values {
			p, known := t.known(v.View, op.Cell)
			next, applies := batch.Judge(i, n, known)
			known.State = next
			if applies {
				err := refused(v)
				batch.Reject(i, n, err)
				known.Dead = err != nil || v.Err != nil
			}
			contributes := applies && !known.Dead && len(v.Entries) > 0
			fellows, places := t.fellows(p)
			_, waits, heir := batch.Claim(i, n, next, fellows)
			if applies {
				delete(t.sink.held, p)
				delete(t.sink.waits, p)
				known.Waits = waits
			}
			switch {
			case waits && !known.Dead:
				t.sink.waits[p] = v.Entries
			case contributes:
				t.sink.held[p] = v.Entries
			case heir >= 0:
				to := places[heir]
				t.sink.held[to] = t.sink.waits[to]
				delete(t.sink.waits, to)
				t.sink.cells[to] = judge.Known{State: fellows[heir].State, Dead: fellows[heir].Barren}
			}
			known.Dead = known.Dead || waits
			t.sink.cells[p] = known
		}
	}
	return batch.Applied(), nil
}

// fellows finds the other sources that have written p's cell in p's view. For each of them it returns what the sink
// knows about that source's cell, and the key of that cell in the sink's maps.
func (t *memoryTarget) fellows(p place) (fellows []judge.Fellow, places []place) {
	for m := range t.sink.marks {
		other := place{m.source, m.view, p.cell}
		known, ok := t.sink.cells[other]
		if ok && m.source != p.source && m.view == p.view {
			known.Shown = len(t.sink.held[other]) > 0
			_, kept := t.sink.waits[other]
			fellows = append(fellows, judge.Fellow{Source: other.source, Known: known, Barren: known.Waits && !kept})
			places = append(places, other)
		}
	}
	return fellows, places
}

// Versions returns the lowest and the highest version that the target's views have of each cell.
func (t *memoryTarget) Versions(_ context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	versions := judge.NewVersions(len(cells))
	for i, c := range cells {
		for n, v := range t.views {
			if v.Feeds(c) {
				_, known := t.known(n, c)
				versions.Add(i, known.State.Version)
			}
		}
	}
	return versions.Spans(), nil
}

// Mark raises the marks of the target's views in the sink. If it fails, it changes none.
func (t *memoryTarget) Mark(_ context.Context, at replicator.Standing) error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	return t.marks.Mark(at, func(marking *judge.Marking) (err error) {
		raised := make([]replicator.Mark, len(t.views))
		for i, v := range t.views {
			m, ok := t.sink.marks[mark{t.source, v.Name}]
			if !ok || m.Fingerprint != v.Fingerprint {
				return marking.Gone(i)
			}
			if m.Standing, err = marking.Raise(i, m.Standing); err != nil {
				return err
			}
			m.Fill = maps.Clone(m.Fill)
			raised[i] = m
		}
		for _, m := range raised {
			t.sink.marks[mark{t.source, m.View}] = m
		}
		return nil
	})
}

// Foreign returns the views whose marks another replicator had changed when Mark was last called.
func (t *memoryTarget) Foreign() []string { return t.marks.Foreign() }

// Compare returns where the entries of a view differ from those that ops would write.
func (t *memoryTarget) Compare(_ context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var differences []replicator.Difference
	for i, op := range ops {
		for _, v := range op.Values {
			p, known := t.known(v.View, op.Cell)
			fellows, _ := t.fellows(p)
			want, dead := v.Entries, cmp.Or(v.Err, refused(v), judge.Claimed(op, fellows))
			if dead != nil {
				want = nil
			}
			held := t.sink.held[p]
			d := replicator.Difference{Op: i, View: v.View, States: []replicator.State{known.State}, Held: held, Err: dead}
			d.Kind = judge.Difference(len(want) > 0, len(held) > 0, reflect.DeepEqual(want, held))
			if d.Kind == "" && dead != nil {
				d.Kind = replicator.Dead
			}
			if d.Kind == "" {
				continue
			}
			differences = append(differences, d)
		}
	}
	return differences, nil
}

// Outdated lists the cells of the target's views on which the last op was before the log position `before`.
func (t *memoryTarget) Outdated(
	_ context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, k judge.Known) bool {
		ours := slices.ContainsFunc(t.views, func(v *replicator.View) bool { return v.Name == p.view })
		return ours && k.Outdated(before)
	})
}

// Dead lists the cells that have a dead letter in a view.
func (t *memoryTarget) Dead(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, k judge.Known) bool { return k.Dead && p.view == t.views[view].Name })
}

// Held lists the cells that have entries in a view.
func (t *memoryTarget) Held(_ context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(after, limit, func(p place, k judge.Known) bool { return k.Shown && p.view == t.views[view].Name })
}

// page returns up to limit wanted cells whose names sort after the parameter `after`. next is "" on the last page.
func (t *memoryTarget) page(
	after string, limit int, wanted func(place, judge.Known) bool,
) (cells []replicator.Cell, next string, err error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	for p, known := range t.sink.cells {
		known.Shown = len(t.sink.held[p]) > 0
		if p.source == t.source && wanted(p, known) {
			cells = append(cells, p.cell)
		}
	}
	cells, next = pageOf(cells, after, limit)
	return cells, next, nil
}

// pageOf sorts cells by name and returns at most limit of those that come after the name in the parameter `after`. next
// is the name of the page's last cell, or "" if it is the last page.
func pageOf(cells []replicator.Cell, after string, limit int) (page []replicator.Cell, next string) {
	cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return c.String() <= after })
	slices.SortFunc(cells, func(a, b replicator.Cell) int { return cmp.Compare(a.String(), b.String()) })
	if cells = slices.Compact(cells); len(cells) <= limit {
		return cells, ""
	}
	return cells[:limit], cells[limit-1].String()
}
