package elastic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// batch is one call of Apply or Compare.
type batch struct {
	*judge.Batch
	target    *Target
	ops       []replicator.Op
	documents []*document
	unplaced  []change // changes whose document id can't be made, so no document can hold them
}

// change is what one value of an op does to one document.
type change struct {
	op, value int
	slot      slot  // what the document is to hold about the cell, without the state
	bad       error // error of a contribution that can't be stored
	applied   bool  // the change applies, judged by what is known of the document
}

// Apply implements replicator.Target. It reads each document, judges it, and writes it if no other writer has changed
// it meanwhile; otherwise it tries again. Documents that are probably new, or were written lately, are not read first.
// If that guess is wrong, the write fails on its condition, and the document is read after all.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (applied replicator.Applied, err error) {
	err = t.throughGates(ctx, func() (err error) {
		applied, err = t.apply(ctx, ops)
		return err
	})
	return applied, err
}

func (t *Target) apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	b := t.gather(ops)
	b.recall()
	b.guess()
	pending := b.documents
	for round := 0; len(pending) > 0; round++ {
		if round > maxRounds {
			return replicator.Applied{}, fmt.Errorf("%d documents of view %s could not be written, because another "+
				"program changed them each time", len(pending), pending[0].keeper.view.Name)
		}
		var err error
		if pending, err = b.round(ctx, pending); err != nil {
			return replicator.Applied{}, err
		}
	}
	b.learn()
	return b.outcome(), nil
}

// maxRounds is how often a write may fail because other writers changed the same document.
const maxRounds = 200

// gather finds the document that each value of the ops belongs to. Several cells may share a document.
func (t *Target) gather(ops []replicator.Op) *batch {
	b := &batch{Batch: judge.NewBatch(ops), target: t, ops: ops, documents: make([]*document, 0, len(ops))}
	known := make(map[address]*document, len(ops))
	for i := range ops {
		cell := ops[i].Cell
		name := slotName(t.source, cell)
		for n, v := range ops[i].Values {
			k := t.kept[v.View]
			c := change{op: i, value: n, slot: slot{name: name, key: cell.Key}}
			if v.Err == nil && len(v.Entries) > 0 {
				c.slot.fields, c.bad = k.contribution(v.Entries[0])
				c.slot.Shown = c.bad == nil
			}
			c.slot.Dead = v.Err != nil || c.bad != nil
			id, routing, err := k.id(cell)
			if err != nil { // no such document can exist, so there is nothing to remove
				if c.slot.Shown || c.slot.Dead {
					c.bad = cmp.Or(v.Err, err)
					b.unplaced = append(b.unplaced, c)
				}
				continue
			}
			d := known[address{v.View, id}]
			if d == nil {
				d = k.document(id, routing)
				d.whole = k.merged // Elasticsearch writes the numbers in a filtered _source as doubles
				known[address{v.View, id}] = d
				b.documents = append(b.documents, d)
			}
			d.changes = append(d.changes, c)
		}
	}
	return b
}

// round reads (if necessary), judges and writes each document once. It returns the documents that need another round.
func (b *batch) round(ctx context.Context, pending []*document) (left []*document, err error) {
	delay := time.Duration(0)
	err = b.target.sink.client.inParts(pending, func(part []*document) error {
		some, wait, err := b.step(ctx, part)
		left, delay = append(left, some...), max(delay, wait)
		return err
	})
	if err != nil || delay == 0 {
		return left, err
	}
	return left, pause.For(ctx, delay)
}

// step reads (if necessary), judges and writes documents that are few enough to be read together. It returns those that
// need another round, and how long to wait before it. It frees the memory of finished documents.
func (b *batch) step(ctx context.Context, pending []*document) (left []*document, delay time.Duration, err error) {
	var unknown []*document
	for _, d := range pending {
		if !d.known {
			unknown = append(unknown, d)
		}
	}
	if err := b.target.sink.client.read(ctx, unknown); err != nil {
		return nil, 0, err
	}
	var writes []*document
	for _, d := range pending {
		if err := b.decide(d); err != nil {
			return nil, 0, err
		}
		switch {
		case !d.known:
			left = append(left, d)
		case d.next != nil:
			writes = append(writes, d)
		default:
			d.release()
		}
	}
	if err := b.target.sink.client.write(ctx, writes); err != nil {
		return nil, 0, err
	}
	for _, d := range writes {
		b.target.memory.note(d)
		if d.written {
			d.release()
			continue
		}
		wait, err := d.refuse()
		if err != nil {
			return nil, 0, err
		}
		delay = max(delay, wait)
		left = append(left, d)
	}
	return left, delay, nil
}

// release frees the memory that only an unfinished document needs.
func (d *document) release() { d.source, d.read, d.next, d.text = nil, nil, nil, nil }

// decide judges the document's changes and sets what to write: nothing if all are stale. If it needs more of the
// document than is known, it marks the document as unknown, so that the next round reads it.
func (b *batch) decide(d *document) error {
	if d.read == nil {
		d.read = d.contents()
	}
	next, changed := slices.Clone(d.read), false
	for i := range d.changes {
		c := &d.changes[i]
		old := next.find(c.slot.name)
		if old == nil {
			old = &slot{name: c.slot.name, Known: judge.Unseen}
		}
		known := old.Known
		known.Horizon = d.horizon
		unknown := b.UnknownIn(c.op, known)
		state, applies := b.Judge(c.op, c.value, known)
		// what memory has may be out of date: read the document before the op counts as stale
		if (unknown || !applies) && d.remembered {
			d.forget()
			return nil
		}
		if unknown {
			c.applied = false
			continue
		}
		fellows, slots := b.target.fellows(next, &c.slot)
		_, waits, heir := b.Claim(c.op, c.value, state, fellows)
		switch c.applied = applies; {
		case applies:
			made := c.slot
			if made.State = state; waits {
				made.barren = made.Dead
				made.Shown, made.Dead, made.Waits = false, true, true
			}
			if !d.keeper.merged {
				next = next[:0] // the document may hold only one cell, so drop any other
			}
			next = next.set(&made)
			if heir >= 0 {
				shown := *slots[heir]
				shown.Shown, shown.Dead = shown.fields != nil, shown.barren
				shown.Waits, shown.barren = false, false
				next = next.set(&shown)
			}
		case state != old.State:
			if !d.whole { // to write the new state, the whole document is needed
				d.whole = true
				d.forget()
				return nil
			}
			kept := *old
			kept.key, kept.State = c.slot.key, state
			if err := d.keeper.complete(&kept, d.source); err != nil {
				return err
			}
			next = next.set(&kept)
		default:
			continue
		}
		changed = true
	}
	for name := range d.refused {
		if s := next.find(name); s != nil && s.Shown {
			kept := *s
			kept.Shown, kept.Dead = false, true
			next, changed = next.set(&kept), true
		}
	}
	d.next = nil
	if changed {
		d.keeper.sort(next)
		d.next = next
	}
	return nil
}

// fellows returns what a document holds of the same cell as `own` at other sources (Target.nearby). `slots` are the
// document's entries of these sources, in the same order.
func (t *Target) fellows(stands contents, own *slot) (fellows []judge.Fellow, slots []*slot) {
	if len(t.nearby) == 0 {
		return nil, nil
	}
	name, _, _ := strings.Cut(own.name, "@")
	for _, s := range stands {
		if other, _, _ := strings.Cut(s.name, "@"); other != name || s.name == own.name {
			continue
		}
		if from, _, ok := t.sink.cell(s); ok && slices.Contains(t.nearby, from) {
			fellows = append(fellows, judge.Fellow{Source: from, Known: s.Known, Barren: s.barren})
			slots = append(slots, s)
		}
	}
	return fellows, slots
}

func (d *document) forget() {
	d.known, d.remembered, d.exists, d.source, d.read, d.next = false, false, false, nil, nil, nil
	clear(d.refused) // if the document still holds a value that the index refuses, the next write finds it again
}

func (b *batch) outcome() replicator.Applied {
	for i := range b.unplaced {
		c := &b.unplaced[i]
		b.Reject(c.op, c.value, c.bad)
	}
	for _, d := range b.documents {
		for i := range d.changes {
			c := &d.changes[i]
			b.Reject(c.op, c.value, cmp.Or(c.bad, d.refused[c.slot.name]))
		}
		for name, err := range d.refused {
			b.rejectBeside(d, name, err)
		}
	}
	return b.Applied()
}

// rejectBeside reports a refused value of a cell that no op of the batch has changed. The document shows that value
// because an op changed another cell of the document. The error is reported with that op.
func (b *batch) rejectBeside(d *document, name string, err error) {
	if slices.ContainsFunc(d.changes, func(c change) bool { return c.applied && c.slot.name == name }) {
		return
	}
	if i := slices.IndexFunc(d.changes, func(c change) bool { return c.applied }); i >= 0 {
		err = fmt.Errorf("the index refuses a value of another cell of this document, %s: %w", name, err)
		b.RejectBeside(d.changes[i].op, d.keeper.place, err)
	}
}
