package judge

import (
	"slices"

	"replicator"
)

// Part is the part of a batch that one other target applies, such as a shard's, if several targets keep the views
// together. It has some of the ops, with some of their values or of the values' entries. It numbers the views as that
// target does.
type Part struct {
	Ops   []replicator.Op
	of    []int // of[i] is the index in the batch of the op Ops[i]
	views []int // by a view's index in the part's target: its index in the batch's target
}

// NewPart makes an empty part. views translates the part's view indexes: views[i] is the index that the batch's target
// has for view i of the part's target.
func NewPart(views []int) Part { return Part{views: views} }

// Add adds an op, reduced to the values and entries that the part's target applies. place is the index of the whole op
// in the batch.
func (p *Part) Add(place int, op replicator.Op) {
	p.Ops, p.of = append(p.Ops, op), append(p.of, place)
}

// At returns where one of the part's values is in the whole batch: the batch's index of the op, and of the view.
func (p *Part) At(op, view int) replicator.ValueAt {
	return replicator.ValueAt{Op: p.of[op], View: p.views[view]}
}

// Include adds the outcome of a part. A value counts if it counts in any part, and is rejected if any part rejects it.
func (b *Batch) Include(p *Part, outcome replicator.Applied) {
	stale := make([]bool, len(p.Ops))
	for _, i := range outcome.Stale {
		stale[i] = true
	}
	for _, i := range outcome.Unknown {
		b.unknown[p.of[i]] = true
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
