package service

import (
	"context"
	"errors"
	"slices"

	"replicator"
	"replicator/config"
	"replicator/verify"
)

// Views of one sink agree because each change of a cell is applied to all of them in one act. A repair must not undo
// that: what is wrong in one view is wrong in its siblings, too, where the log didn't tell of it. So a repair of a view
// writes the cell to all views of the sink that are kept up together with it, as they are when it writes.

// besides tells, of a sibling's mark and the view's own, whether the sibling is kept up together with the view.
type besides func(sibling, own replicator.Mark) bool

// together opens a view for a repair with its siblings; nil if it has none.
func (in *inspector) together(
	ctx context.Context, shard config.Shard, view *replicator.View, keptUp besides,
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

// siblings are the views beside one that its repair writes, too. Of views that are fed from Kafka each record is of one,
// and each topic of a changelog is written by itself: they have none.
func (in *inspector) siblings(
	ctx context.Context, shard config.Shard, view *replicator.View, keptUp besides,
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
		if mayLookAt(v, marks) == nil { // else the process that keeps it has another definition
			siblings = append(siblings, kept[i])
		}
	}
	return siblings, err
}

// keptUp tells which views are kept up by what a running process says of them.
func keptUp(running []replicator.ViewStatus) besides {
	return func(sibling, _ replicator.Mark) bool {
		return slices.ContainsFunc(running, func(s replicator.ViewStatus) bool { return s.View == sibling.View && s.KeptUp() })
	}
}
