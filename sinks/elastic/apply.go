package elastic

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// change is what one op does to one document.
type change struct {
	op, view int
	slot     string
	do       replicator.Op
	present  bool
	fields   [][]byte
	failed   error // why what it contributes could not be computed
	bad      error // why what it contributes can't be stored
	applied  bool  // State.Next says so, of the document as it was read last
	dead     bool  // it is not applied, and the cell stands there as a dead letter
}

// batch is one call of Apply.
type batch struct {
	target    *Target
	ops       []replicator.Op
	documents []*document
	rejected  []replicator.Rejected // ops without a document
}

// Apply implements replicator.Target. Every document is read, judged and written back on the condition that nobody
// wrote it in between; what fails on that condition goes round again. Documents that are probably new are created
// without being read before, and those written lately are judged by what was written: the condition is the same, so
// that is exact, too.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	b := &batch{target: t, ops: ops}
	b.gather()
	b.recall()
	b.guess()
	pending := b.documents
	for round := 0; len(pending) > 0; round++ {
		if round > maxRounds {
			return replicator.Applied{}, fmt.Errorf("%d documents of view %s were written by others each time they were to be written here",
				len(pending), pending[0].keeper.view.Name)
		}
		var err error
		if pending, err = b.round(ctx, pending); err != nil {
			return replicator.Applied{}, t.replaced(ctx, err)
		}
	}
	b.learn()
	return b.outcome(), nil
}

// maxRounds bounds the rounds that one batch may take. Of writers that meet at a document one always gets through.
const maxRounds = 200

// gather finds the document of each op and view. Ops of several cells of one entity share one.
func (b *batch) gather() {
	known := make(map[place]*document, len(b.ops))
	b.documents = make([]*document, 0, len(b.ops))
	for i, op := range b.ops {
		slot := slotName(b.target.source, op.Cell)
		for _, v := range op.Values {
			k := b.target.kept[v.View]
			c := &change{op: i, view: v.View, slot: slot, do: op, failed: v.Err}
			if v.Err == nil && len(v.Entries) > 0 {
				c.fields, c.bad = k.contribution(v.Entries[0])
				c.present = c.bad == nil
			}
			id, routing, err := k.id(op.Cell)
			if err != nil { // no document can be there: nothing to take away
				if len(v.Entries) > 0 || v.Err != nil {
					b.rejected = append(b.rejected, replicator.Rejected{Op: i, View: v.View, Err: cmp.Or(v.Err, err)})
				}
				continue
			}
			d := known[place{v.View, id}]
			if d == nil {
				d = &document{index: k.generation.write, id: id, routing: routing, keeper: k, refused: map[string]error{}}
				known[place{v.View, id}] = d
				b.documents = append(b.documents, d)
			}
			d.changes = append(d.changes, c)
		}
	}
}

// round takes documents one step on and returns those that are not done.
func (b *batch) round(ctx context.Context, pending []*document) ([]*document, error) {
	var unknown []*document
	for _, d := range pending {
		if !d.known {
			unknown = append(unknown, d)
		}
	}
	if err := b.target.sink.client.read(ctx, unknown); err != nil {
		return nil, err
	}
	var writes, left []*document
	for _, d := range pending {
		if err := d.decide(); err != nil {
			return nil, err
		}
		switch {
		case !d.known:
			left = append(left, d)
		case d.next != nil:
			d.text = d.keeper.render(d.text[:0], d.next)
			writes = append(writes, d)
		}
	}
	if err := b.target.sink.client.write(ctx, writes); err != nil {
		return nil, err
	}
	delay := time.Duration(0)
	for _, d := range writes {
		b.target.memory.note(d)
		if d.written {
			continue
		}
		wait, err := d.refuse()
		if err != nil {
			return nil, err
		}
		delay = max(delay, wait)
		left = append(left, d)
	}
	if delay == 0 {
		return left, nil
	}
	return left, pause.For(ctx, delay)
}

// decide judges the document's changes and makes what is to be written: nothing, if all are stale. It may find that it
// must know more of the document; then that is no longer known.
func (d *document) decide() error {
	if d.read == nil {
		d.read = contents{}
		if d.exists {
			var err error
			if d.read, err = d.keeper.parse(d.source); err != nil {
				return err
			}
		}
	}
	next, changed := contents{}, false
	for name, s := range d.read {
		next[name] = s
	}
	for _, c := range d.changes {
		old := next[c.slot]
		if old == nil {
			old = &slot{state: replicator.Unseen}
		}
		state, applies := old.state.Next(c.do)
		if !applies && d.remembered { // another writer's look may have lowered the version since
			d.forget()
			return nil
		}
		c.dead = !applies && old.dead
		if c.applied = applies; applies {
			s := &slot{key: c.do.Cell.Key, state: state, present: c.present, dead: c.failed != nil || c.bad != nil, fields: c.fields}
			if !d.keeper.merged {
				next = contents{} // the only cell there is
			}
			next[c.slot], changed = s, true
		} else if state != old.state {
			kept := *old
			kept.key, kept.state = c.do.Cell.Key, state
			if err := d.keeper.complete(&kept, d.source); err != nil {
				return err
			}
			next[c.slot], changed = &kept, true
		}
	}
	for name := range d.refused {
		if s := next[name]; s != nil && s.present {
			kept := *s
			kept.present, kept.dead = false, true
			next[name], changed = &kept, true
		}
	}
	d.next = nil
	if changed {
		d.next = next
	}
	return nil
}

// forget makes the document be read again.
func (d *document) forget() {
	d.known, d.remembered, d.exists, d.source, d.read, d.next = false, false, false, nil, nil, nil
	clear(d.refused) // of other cells it may be over; of the batch's own it will show again
}

// Items that Elasticsearch had no room for are sent again, a few times; then the pipeline waits, which it does longer.
const (
	maxTries   = 6
	firstDelay = 50 * time.Millisecond
)

// refuse decides what follows from a write that failed: another look at the document, another try after a while, or a
// value that can't be stored. Everything else is an error.
func (d *document) refuse() (wait time.Duration, err error) {
	f := d.failure
	switch {
	case f.Status == http.StatusConflict:
		d.forget()
		return 0, nil
	case f.isGone():
		return 0, gone(d.index)
	case f.isTemporary() && d.tries < maxTries && !f.isBlock():
		d.tries++
		delay := firstDelay << d.tries
		return delay/2 + rand.N(delay/2), nil
	case f.isClosed(): // no fault of the document
	case f.Status == http.StatusBadRequest || f.Status == http.StatusRequestEntityTooLarge:
		return 0, d.blame(f)
	}
	return 0, ofView(fmt.Errorf("writing a document of view %s: %w", d.keeper.view.Name, f.classify()), d.keeper.view)
}

// blame finds which cell's contribution a document was refused for. A merged document may show a field of another cell
// than the one that changed: one that was hidden behind it until now.
func (d *document) blame(f *failure) error {
	reason := error(f)
	if f.Status == http.StatusRequestEntityTooLarge {
		reason = errTooLarge(0)
	}
	find := d.keeper.misnamed
	if field := f.field(); field != "" {
		find = func(c contents) (string, suspect) { return d.keeper.supplier(c, field) }
	}
	if name, s := find(d.next); name != "" {
		return d.reject(name, fmt.Errorf("%w; %s is %s", reason, s.field, s.kind))
	}
	for _, c := range d.changes {
		if c.applied && d.next[c.slot].present {
			return d.reject(c.slot, reason)
		}
	}
	for name, s := range d.next {
		if s.present {
			return d.reject(name, reason)
		}
	}
	return fmt.Errorf("view %s: its index refuses even a document without fields: %w; rebuild the view", d.keeper.view.Name, f)
}

func (d *document) reject(slot string, reason error) error {
	d.refused[slot] = reason
	return nil
}

// outcome says what became of the ops.
func (b *batch) outcome() replicator.Applied {
	out := replicator.Applied{Rejected: b.rejected}
	views, applied := make([]int, len(b.ops)), make([]int, len(b.ops))
	for _, d := range b.documents {
		first := -1
		reported := map[string]bool{}
		for i, c := range d.changes {
			views[c.op]++
			if !c.applied {
				continue
			}
			applied[c.op]++
			if first < 0 {
				first = i
			}
			reported[c.slot] = true
			err := c.bad
			if err == nil {
				err = d.refused[c.slot]
			}
			if err != nil {
				out.Rejected = append(out.Rejected, replicator.Rejected{Op: c.op, View: c.view, Err: err})
			}
		}
		for name, err := range d.refused {
			if !reported[name] && first >= 0 { // of a cell that has no op in this batch: it is told with the op that brought it out
				c := d.changes[first]
				err = fmt.Errorf("the field's value is that of cell %s of the same document: %w", name, err)
				out.Rejected = append(out.Rejected, replicator.Rejected{Op: c.op, View: c.view, Err: err})
			}
		}
	}
	for _, r := range b.rejected {
		applied[r.Op]++
	}
	for i := range b.ops {
		if views[i] > 0 && applied[i] == 0 {
			out.Stale = append(out.Stale, i)
		}
	}
	for _, d := range b.documents {
		for _, c := range d.changes {
			if c.dead && applied[c.op] == 0 {
				out.Dead = append(out.Dead, replicator.ValueAt{Op: c.op, View: c.view})
			}
		}
	}
	return out
}
