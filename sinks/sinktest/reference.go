package sinktest

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"replicator"
)

// Reference is a sink in memory: the contract in as few lines as it takes. It is safe for concurrent use.
type Reference struct {
	mu     sync.Mutex
	next   func(replicator.State, replicator.Op) (replicator.State, bool)
	states map[place]replicator.State
	held   map[place][]replicator.Entry
	dead   map[place]bool
	marks  map[mark]replicator.Mark
}

// place is a cell's place in a view.
type place struct {
	source, view string
	cell         replicator.Cell
}

type mark struct{ source, view string }

var _ replicator.Sink = (*Reference)(nil)

// NewReference returns an empty sink.
func NewReference() *Reference {
	return &Reference{
		next: replicator.State.Next, states: map[place]replicator.State{}, held: map[place][]replicator.Entry{}, dead: map[place]bool{},
		marks: map[mark]replicator.Mark{},
	}
}

// Open implements replicator.Sink.
func (r *Reference) Open(_ context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range views {
		k := mark{source, v.Name}
		if m, ok := r.marks[k]; ok && m.Fingerprint == v.Fingerprint {
			continue
		} else if ok { // another definition: what is known of the old one says nothing about it
			for p := range r.states {
				if p.source == source && p.view == v.Name {
					delete(r.states, p)
					delete(r.held, p)
					delete(r.dead, p)
				}
			}
		}
		r.marks[k] = replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: unmarked()}
	}
	t := &referenceTarget{sink: r, source: source, views: views, marked: map[string]replicator.Standing{}}
	for _, v := range views {
		t.marked[v.Name] = r.marks[mark{source, v.Name}].Standing
	}
	return t, nil
}

// unmarked is the standing of a view that was opened and never marked.
func unmarked() replicator.Standing {
	return replicator.Standing{Fill: map[string]replicator.Progress{}}
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
	maps.DeleteFunc(r.states, func(p place, _ replicator.State) bool { return p.view == view })
	maps.DeleteFunc(r.dead, func(p place, _ bool) bool { return p.view == view })
	return nil
}

// Close implements replicator.Sink.
func (r *Reference) Close() error { return nil }

// Read is a Subject's Read.
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

// SetMark is a Subject's SetMark.
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

// Snapshot remembers all that the sink holds, as a backup or a replica does, and returns what sets it back to that.
func (r *Reference) Snapshot() (restore func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	states, held, marks := maps.Clone(r.states), maps.Clone(r.held), maps.Clone(r.marks)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.states, r.held, r.marks = maps.Clone(states), maps.Clone(held), maps.Clone(marks)
	}
}

// Empty removes all that the sink holds.
func (r *Reference) Empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.states)
	clear(r.held)
	clear(r.marks)
}

type referenceTarget struct {
	sink   *Reference
	source string
	views  []*replicator.View
	marked map[string]replicator.Standing // of each view, as this target saw or marked it last
}

var _ replicator.Target = (*referenceTarget)(nil)

func (t *referenceTarget) Views() []*replicator.View { return t.views }

func (t *referenceTarget) Close() error { return nil }

func (t *referenceTarget) state(view int, c replicator.Cell) (place, replicator.State) {
	p := place{source: t.source, view: t.views[view].Name, cell: c}
	if s, ok := t.sink.states[p]; ok {
		return p, s
	}
	return p, replicator.Unseen
}

func (t *referenceTarget) Apply(_ context.Context, ops []replicator.Op) (replicator.Applied, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	var applied replicator.Applied
	for i, op := range ops {
		stale, dead := true, []replicator.ValueAt(nil)
		for _, v := range op.Values {
			p, state := t.state(v.View, op.Cell)
			next, ok := t.sink.next(state, op)
			t.sink.states[p] = next
			if !ok {
				if t.sink.dead[p] {
					dead = append(dead, replicator.ValueAt{Op: i, View: v.View})
				}
				continue
			}
			stale = false
			delete(t.sink.dead, p)
			if err := refused(v); err != nil {
				t.sink.dead[p] = true
				applied.Rejected = append(applied.Rejected, replicator.Rejected{Op: i, View: v.View, Err: err})
				v.Entries = nil
			}
			if v.Err != nil {
				t.sink.dead[p], v.Entries = true, nil
			}
			if len(v.Entries) == 0 {
				delete(t.sink.held, p)
			} else {
				t.sink.held[p] = v.Entries
			}
		}
		if stale && len(op.Values) > 0 {
			applied.Stale, applied.Dead = append(applied.Stale, i), append(applied.Dead, dead...)
		}
	}
	return applied, nil
}

// Refused is a value that the reference can't hold.
type Refused struct{}

func refused(v replicator.Value) error {
	for _, e := range v.Entries {
		for _, f := range e.Fields {
			if _, ok := f.(Refused); ok {
				return fmt.Errorf("a made-up value can't be held")
			}
		}
	}
	return nil
}

func (t *referenceTarget) Versions(_ context.Context, cells []replicator.Cell) ([]int64, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	versions := make([]int64, len(cells))
	for i, c := range cells {
		first := true
		versions[i] = replicator.NoVersion
		for n, v := range t.views {
			if !v.Feeds(c) {
				continue
			}
			_, s := t.state(n, c)
			if first || s.Version < versions[i] {
				versions[i] = s.Version
			}
			first = false
		}
	}
	return versions, nil
}

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
