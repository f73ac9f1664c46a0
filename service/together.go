package service

import (
	"context"
	"errors"
	"slices"

	"replicator"
	"replicator/config"
	"replicator/verify"
)

// A pipeline applies a change of a cell to all views of its sink in one step, so that these views agree. A repair must
// keep that, so it writes a cell to the repaired view and to its siblings: the views that the same pipeline keeps up to
// date.

// siblingTest reports whether the same pipeline keeps two views of a sink up to date. `repaired` is the mark (the
// checkpoint that the sink keeps) of the view to repair, and `sibling` the mark of the other view.
type siblingTest func(sibling, repaired replicator.Mark) bool

// together opens a view for a repair, and with it its siblings: the other views of the sink that the repair must also
// write. It returns nil if there are none.
func (in *inspector) together(
	ctx context.Context, shard config.Shard, view *replicator.View, keptUp siblingTest,
) (*verify.Together, error) {
	siblings, err := in.siblings(ctx, shard, view, keptUp)
	if len(siblings) == 0 {
		return nil, err
	}
	o, err := in.inspect(ctx, shard, view, siblings...)
	if err != nil {
		return nil, err
	}
	if err := o.mayRepair(); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return &verify.Together{Views: o.views, Reader: o.reader, Target: o.target, Evaluator: o.evaluator, Close: o.close}, nil
}

// siblings returns the other views of the sink that a repair of the view must also write. There are none with a source
// in Kafka. In a Kafka sink there are none either, because each topic is written separately.
func (in *inspector) siblings(
	ctx context.Context, shard config.Shard, view *replicator.View, keptUp siblingTest,
) (siblings []*replicator.View, err error) {
	sink, err := in.sink(view.Sink)
	if _, apart := sink.(replicator.Looker); err != nil || apart || in.Config.Source.Kafka != nil {
		return nil, err
	}
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return nil, err
	}
	markOf := func(v *replicator.View) (m replicator.Mark, ok bool) {
		i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
		if i >= 0 {
			m = marks[i]
		}
		return m, i >= 0 && m.Err == nil && !m.Filling()
	}
	own, _ := markOf(view)
	shares := func(f replicator.Feed) bool {
		return slices.ContainsFunc(view.From, func(o replicator.Feed) bool { return o.Table == f.Table })
	}
	var kept []*replicator.View
	for _, v := range in.Config.Views {
		m, ok := markOf(v)
		if ok && v.Sink == view.Sink && v.Name != view.Name && slices.ContainsFunc(v.From, shares) &&
			m.Position.Epoch() == own.Position.Epoch() && keptUp(m, own) {
			kept = append(kept, v)
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	o, err := in.prepare(shard, kept)
	if err != nil {
		return nil, err
	}
	defined, err := asMarked(ctx, o.source, kept, marks)
	for i, v := range defined {
		if mayLookAt(v, marks) == nil { // omit a view whose definition differs from the running process's
			siblings = append(siblings, kept[i])
		}
	}
	return siblings, err
}

// keptUp returns a function that reports whether the running process keeps a sibling (another view of the sink) up to
// date. running is the status of that process.
func keptUp(running []replicator.ViewStatus) siblingTest {
	return func(sibling, _ replicator.Mark) bool {
		return slices.ContainsFunc(running, func(s replicator.ViewStatus) bool { return s.View == sibling.View && s.KeptUp() })
	}
}
