package judge

import (
	"cmp"
	"slices"

	"replicator"
)

// Batch holds, for one call of Target.Apply, the decision on each value of each op. A value is what an op contributes
// to one view. Methods identify it by the op's index in the batch, and its own index in Op.Values.
type Batch struct {
	ops      []replicator.Op
	first    []int // by op: the index of its first value's verdict in `verdicts`
	verdicts []verdict
	unknown  []bool                // by op: a view can't tell whether the op is stale
	beside   []replicator.Rejected // refused values of cells that have no op in the batch
	next     Rule
}

// Rule computes a cell's new state in a view, and whether the op applies. It is replicator.State.Next, except where a
// test plants a wrong rule.
type Rule func(replicator.State, replicator.Op) (replicator.State, bool)

type verdict struct {
	judged  bool
	applied bool
	dead    bool  // the value is not applied, and the cell is a dead letter in the view
	why     error // the error if the target can't hold the value; nil: it can
	claimed error // the error if the view shows another source's row of the cell instead; nil: it does not

	elsewhere string // the source whose row the view shows; set only if the op's source has no row
}

// NewBatch returns a Batch for the ops, without decisions yet.
func NewBatch(ops []replicator.Op) *Batch { return NewBatchBy(replicator.State.Next, ops) }

// NewBatchBy is NewBatch with a rule other than State.Next.
func NewBatchBy(rule Rule, ops []replicator.Op) *Batch {
	b := &Batch{next: rule}
	b.Begin(ops)
	return b
}

// Begin reuses b's memory for a new batch. The earlier batch's data is lost, except what Applied returned.
func (b *Batch) Begin(ops []replicator.Op) {
	b.ops, b.first, b.beside = ops, slices.Grow(b.first[:0], len(ops)), nil
	n := 0
	for i := range ops {
		b.first = append(b.first, n)
		n += len(ops[i].Values)
	}
	clear(b.verdicts) // up to its length; what the slice has beyond that is zero already
	b.verdicts = slices.Grow(b.verdicts[:0], n)[:n]
	clear(b.unknown)
	b.unknown = slices.Grow(b.unknown[:0], len(ops))[:len(ops)]
}

// Unknown reports whether a view of the op can't tell if the op is stale, because the sink may have removed the state
// that would show it. known(i) returns what the sink knows of the op's cell in the view of the op's Values[i]. A sink
// calls Unknown before it judges the op's values, so that no view applies an op that another view can't judge.
func (b *Batch) Unknown(op int, known func(value int) Known) bool {
	b.unknown[op] = false
	for value := range b.ops[op].Values {
		b.UnknownIn(op, known(value))
	}
	return b.unknown[op]
}

// UnknownIn reports whether a single view can't tell if the op is stale. Sinks that write view by view call it instead
// of Unknown, because other views may already have applied the op. Batch.Applied lists the op in its field Unknown if
// any view can't tell.
func (b *Batch) UnknownIn(op int, known Known) bool {
	unknown := known.State.Unknown(b.ops[op], known.Horizon)
	b.unknown[op] = b.unknown[op] || unknown
	return unknown
}

// Judge decides whether a value counts, given what the sink knows of the op's cell in the value's view. next is the
// cell's new state. The sink must store it even if the value does not count.
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

// Reject records why the target can't hold a value; nil: it can. Batch.Applied reports the reason, unless Judge finds
// the value stale.
func (b *Batch) Reject(op, value int, why error) { b.verdicts[b.first[op]+value].why = why }

// RejectBeside records that applying `op` made the target write the value of another cell, and that the target refused
// this value. The other cell has no op in the batch. This can happen when several cells share a document.
func (b *Batch) RejectBeside(op, view int, why error) {
	b.beside = append(b.beside, replicator.Rejected{Op: op, View: view, Err: why})
}

// Applied returns the outcome of the batch. An op is stale if at least one of its values was judged, and none counts. A
// value counts if it applies, or if it was rejected without being judged. An unknown op (see Unknown) is not stale.
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
