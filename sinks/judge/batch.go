package judge

import (
	"cmp"
	"slices"

	"replicator"
)

// Batch is what becomes of the ops of one call of Target.Apply, value by value. A value is named by its op's place in
// the batch and its own place in Op.Values.
type Batch struct {
	ops      []replicator.Op
	first    []int // by op: where the verdicts on its values begin
	verdicts []verdict
	unknown  []bool // by op: a view can't judge it, and none applies it
	beside   []replicator.Rejected
	next     Rule
}

// Rule says what follows from an op for the state of a cell in a view: replicator.State.Next, but where a test plants a
// wrong one.
type Rule func(replicator.State, replicator.Op) (replicator.State, bool)

// verdict is what became of a value.
type verdict struct {
	judged  bool
	applied bool
	dead    bool  // it is not applied, and the cell stands in the view as a dead letter
	why     error // it can't be held
	claimed error // another source's cell is shown: see Claim

	elsewhere string // the source whose cell is shown, where this one has nothing to show; else ""
}

// NewBatch begins a batch of which nothing is judged yet.
func NewBatch(ops []replicator.Op) *Batch { return NewBatchBy(replicator.State.Next, ops) }

// NewBatchBy is NewBatch with another rule.
func NewBatchBy(rule Rule, ops []replicator.Op) *Batch {
	b := &Batch{next: rule}
	b.Begin(ops)
	return b
}

// Begin begins another batch in this one's memory. Of the earlier one nothing is left; what Applied returned stays.
func (b *Batch) Begin(ops []replicator.Op) {
	b.ops, b.first, b.beside = ops, slices.Grow(b.first[:0], len(ops)), nil
	n := 0
	for i := range ops {
		b.first = append(b.first, n)
		n += len(ops[i].Values)
	}
	clear(b.verdicts) // what follows them is zero
	b.verdicts = slices.Grow(b.verdicts[:0], n)[:n]
	clear(b.unknown)
	b.unknown = slices.Grow(b.unknown[:0], len(ops))[:len(ops)]
}

// Unknown reports whether an op can't be judged, given what is known of its cell in each of the views that it has a value
// for. A sink asks before it judges any of the values: no view is then given what another one can't judge. It may ask
// again, after it has read again.
func (b *Batch) Unknown(op int, known func(value int) Known) bool {
	b.unknown[op] = false
	for value := range b.ops[op].Values {
		b.UnknownIn(op, known(value))
	}
	return b.unknown[op]
}

// UnknownIn is Unknown for one view alone, where the others may have been given the op already: a sink asks it whose views
// are not written together.
func (b *Batch) UnknownIn(op int, known Known) bool {
	unknown := known.State.Unknown(b.ops[op], known.Horizon)
	b.unknown[op] = b.unknown[op] || unknown
	return unknown
}

// Judge says whether a value counts, given what is known of the op's cell in the value's view, and which state is to be
// kept then: it may be another one also where the value does not count.
func (b *Batch) Judge(op, value int, known Known) (next replicator.State, applies bool) {
	v := &b.verdicts[b.first[op]+value]
	if known.State.Obsolete(b.ops[op], known.Horizon) {
		next, applies = known.State, false
	} else {
		next, applies = b.next(known.State, b.ops[op])
	}
	v.judged, v.applied, v.dead = true, applies, !applies && known.Dead
	v.claimed, v.elsewhere = nil, ""
	return next, applies
}

// Reject notes why a value can't be held, or, with nil, that it can. That is told of a value that counts, and of one
// that is never judged because nothing could be known of it.
func (b *Batch) Reject(op, value int, why error) { b.verdicts[b.first[op]+value].why = why }

// RejectBeside adds what the target refused because of an op, though it is another cell's.
func (b *Batch) RejectBeside(op, view int, why error) {
	b.beside = append(b.beside, replicator.Rejected{Op: op, View: view, Err: why})
}

// Applied is the outcome. An op is stale if values of it were judged and none counts.
func (b *Batch) Applied() replicator.Applied {
	var out replicator.Applied
	for i := range b.ops {
		if b.unknown[i] {
			out.Unknown = append(out.Unknown, i)
			continue
		}
		values := b.ops[i].Values
		verdicts := b.verdicts[b.first[i]:][:len(values)]
		judged, counts := false, false
		for n, v := range verdicts {
			judged = judged || v.judged
			counts = counts || v.applied || !v.judged && v.why != nil
			if why := cmp.Or(v.why, v.claimed); why != nil && (v.applied || !v.judged) {
				out.Rejected = append(out.Rejected, replicator.Rejected{Op: i, View: values[n].View, Err: why})
			}
			if v.elsewhere != "" {
				at := replicator.ValueAt{Op: i, View: values[n].View}
				out.Elsewhere = append(out.Elsewhere, replicator.Elsewhere{ValueAt: at, Source: v.elsewhere})
			}
		}
		if judged && !counts {
			out.Stale = append(out.Stale, i)
		}
		for n, v := range verdicts {
			if v.dead && !v.applied {
				out.Dead = append(out.Dead, replicator.ValueAt{Op: i, View: values[n].View})
			}
		}
	}
	out.Rejected = append(out.Rejected, b.beside...)
	return out
}
