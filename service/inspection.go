package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/verify"
)

// inspection is one view, open on both sides for looking at.
type inspection struct {
	view      *replicator.View
	tables    []replicator.Table
	source    *canal.Source
	reader    replicator.Reader
	sink      replicator.Sink
	target    replicator.Target
	evaluator replicator.Evaluator
}

// inspect opens a view for looking at: nothing of its progress is touched.
func (s Setup) inspect(ctx context.Context, shard config.Shard, view *replicator.View) (o *inspection, err error) {
	o = &inspection{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	views := []*replicator.View{view}
	if o.tables, err = tablesOf(s.Config, shard, views); err != nil {
		return o, err
	}
	if o.evaluator, err = compile(s.Config, views, o.tables); err != nil {
		return o, err
	}
	if o.source, err = s.source(shard, o.tables); err != nil {
		return o, err
	}
	if o.sink, err = s.sink(view.Sink); err != nil {
		return o, err
	}
	marks, err := o.sink.Marks(ctx, shard.Name)
	if err != nil {
		return o, err
	}
	if views, err = asMarked(ctx, o.source, views, marks); err != nil {
		return o, err
	}
	o.view = views[0]
	if err := mayLookAt(o.view, marks); err != nil {
		return o, err
	}
	if o.target, err = o.sink.Open(ctx, shard.Name, views); err != nil {
		return o, err
	}
	var known []replicator.Position // a repair must not stand before what was applied
	for _, m := range marks {
		if !m.Position.IsZero() {
			known = append(known, m.Position)
		}
	}
	at, err := o.source.Latest(ctx, known)
	if err != nil {
		return o, err
	}
	o.reader, err = o.source.Open(ctx, []replicator.Position{at})
	return o, err
}

// asMarked are views with the fingerprints that they have with the source's tables: those that the sink knows them by,
// where they mean the same.
func asMarked(ctx context.Context, source replicator.Source, views []*replicator.View,
	marks []replicator.Mark) ([]*replicator.View, error) {
	own := clones(views)
	for _, v := range own {
		var tables []string
		for _, f := range v.From {
			tables = append(tables, f.Table)
		}
		identities, err := source.Identities(ctx, tables)
		if err != nil {
			return nil, err
		}
		v.Fingerprint = replicator.DefinedOn(v, identities)
		for _, m := range marks {
			if m.View == v.Name && replicator.SameDefinition(m.Fingerprint, v.Fingerprint) {
				v.Fingerprint = m.Fingerprint
			}
		}
	}
	return own, nil
}

// mayLookAt refuses what opening a view would change: a sink begins a view anew whose definition is another one, a
// counter that it does not know, and what lives in several shards in those that do not know it.
func mayLookAt(v *replicator.View, marks []replicator.Mark) error {
	i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
	switch {
	case i >= 0 && !replicator.SameDefinition(marks[i].Fingerprint, v.Fingerprint):
		return fmt.Errorf("%w: %w", verify.ErrUnverifiable, replicator.Redefined(v, marks[i].Fingerprint, v.Fingerprint))
	case i < 0 && v.Spread():
		return fmt.Errorf("view %s: %w: it was never filled, or a shard of its sink lost it", v.Name, verify.ErrUnverifiable)
	case i < 0 && v.Kind == "counter":
		return fmt.Errorf("view %s: %w: it was never filled", v.Name, verify.ErrUnverifiable)
	}
	return nil
}

func (o *inspection) close() error {
	var errs []error
	if o.reader != nil {
		errs = append(errs, o.reader.Close())
	}
	if o.source != nil {
		errs = append(errs, o.source.Close())
	}
	if o.sink != nil {
		errs = append(errs, o.sink.Close())
	}
	return errors.Join(errs...)
}
