package judge

import (
	"slices"

	"replicator"
)

// Part is what one of several targets, such as a shard's, applies of a batch. Its ops may lack some values, or some
// entries of a value, and use that target's view indexes.
type Part struct {
	Ops         []replicator.Op
	opInBatch   []int
	viewInBatch []int
}

// NewPart makes an empty part. views[i] is the index, in the whole batch, of the part's view i.
func NewPart(views []int) Part { return Part{viewInBatch: views} }

// Add adds an op, reduced to what the part's target applies. place is the index of the whole op in the batch.
func (p *Part) Add(place int, op replicator.Op) {
	p.Ops, p.opInBatch = append(p.Ops, op), append(p.opInBatch, place)
}

// At returns where a value is in the whole batch. `op` and `view` are its indexes in p, the part of the batch that one
// target applies.
func (p *Part) At(op, view int) replicator.ValueAt {
	return replicator.ValueAt{Op: p.opInBatch[op], View: p.viewInBatch[view]}
}

// Include adds the outcome of a part to that of the batch. A value applies if it applied in any part, and is rejected
// if any part rejected it.
func (b *Batch) Include(p *Part, outcome replicator.Applied) {
	stale := make([]bool, len(p.Ops))
	for _, i := range outcome.Stale {
		stale[i] = true
	}
	for _, i := range outcome.Unknown {
		b.unknown[p.opInBatch[i]] = true
	}
	dead := map[replicator.ValueAt]bool{}
	for _, d := range outcome.Dead {
		dead[d] = true
	}
	for i, op := range p.Ops {
		for _, value := range op.Values {
			v, isDead := b.verdict(p.At(i, value.View)), dead[replicator.ValueAt{Op: i, View: value.View}]
			v.judged, v.applied, v.dead = true, v.applied || !stale[i] && !isDead, v.dead || isDead
		}
	}
	for _, e := range outcome.Elsewhere {
		b.verdict(p.At(e.Op, e.View)).elsewhere = e.Source
	}
	for _, r := range outcome.Rejected {
		if v := b.verdict(p.At(r.Op, r.View)); v.why == nil {
			v.why = r.Err
		}
	}
}

func (b *Batch) verdict(at replicator.ValueAt) *verdict {
	value := slices.IndexFunc(b.ops[at.Op].Values, func(v replicator.Value) bool { return v.View == at.View })
	return &b.verdicts[b.first[at.Op]+value]
}
