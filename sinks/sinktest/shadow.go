package sinktest

import (
	"context"
	"maps"

	"replicator"
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
		for p, s := range maps.Clone(r.states) {
			if p.view == shadow {
				p.view = v.Name
				r.states[p] = s
			}
		}
		for p, entries := range maps.Clone(r.held) {
			if p.view == shadow {
				p.view = v.Name
				r.held[p] = entries
			}
		}
		for p := range maps.Clone(r.dead) {
			if p.view == shadow {
				p.view = v.Name
				r.dead[p] = true
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
	if entries == nil {
		delete(r.held, p)
	} else {
		r.held[p] = entries
	}
}

// drop removes all of a view.
func (r *Reference) drop(view string) {
	maps.DeleteFunc(r.marks, func(m mark, _ replicator.Mark) bool { return m.view == view })
	maps.DeleteFunc(r.states, func(p place, _ replicator.State) bool { return p.view == view })
	maps.DeleteFunc(r.held, func(p place, _ []replicator.Entry) bool { return p.view == view })
	maps.DeleteFunc(r.dead, func(p place, _ bool) bool { return p.view == view })
}
