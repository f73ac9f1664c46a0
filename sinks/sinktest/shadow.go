package sinktest

import (
	"context"
	"fmt"
	"maps"

	"replicator"
	"replicator/sinks/judge"
)

var _ replicator.Shadower = (*Reference)(nil)

// Shadow implements replicator.Shadower.
func (r *Reference) Shadow(v *replicator.View) *replicator.View {
	shadow := *v
	shadow.Name, shadow.Shadows = v.Name+replicator.ShadowSuffix, v.Name
	return &shadow
}

// Foreign implements replicator.Shadower.
func (r *Reference) Foreign(context.Context, *replicator.View) (string, error) { return "", nil }

// Swap implements replicator.Shadower.
func (r *Reference) Swap(_ context.Context, _ string, views []*replicator.View) error {
	r.mu.Lock()
	defer r.mu.Unlock()
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
				k.view, m.View = v.Name, v.Name
				r.marks[k] = m
			}
		}
		r.drop(shadow)
	}
	return nil
}

// Discard implements replicator.Shadower.
func (r *Reference) Discard(_ context.Context, views []*replicator.View) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range views {
		r.drop(v.Name + replicator.ShadowSuffix)
	}
	return nil
}

// Corrupt removes what a view holds of a cell, or puts something else there, behind the back of the states.
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

// drop removes all of a view.
func (r *Reference) drop(view string) {
	maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
	maps.DeleteFunc(r.cells, func(p place, _ judge.Known) bool { return p.view == view })
	maps.DeleteFunc(r.held, func(p place, _ []replicator.Entry) bool { return p.view == view })
}

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
	cells, held, marks := maps.Clone(r.cells), maps.Clone(r.held), maps.Clone(r.marks)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cells, r.held, r.marks = maps.Clone(cells), maps.Clone(held), maps.Clone(marks)
	}
}

// Empty removes all that the sink holds.
func (r *Reference) Empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cells)
	clear(r.held)
	clear(r.marks)
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
