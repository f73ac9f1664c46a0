package mysql

import (
	"context"
	"slices"

	"replicator"
)

// Fitter returns a function that returns an error if a value doesn't fit the column of a field, given the field's index
// in View.Fields. Values for a column that a rebuild will recreate always fit, and so do a counter's amounts. If the
// table does not exist yet, Fitter returns nil.
func (s *Sink) Fitter(ctx context.Context, v *replicator.View) (func(field int, value any) error, error) {
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if sh == nil || err != nil {
		return nil, err
	}
	gone, _, _, err := s.madeAnew(ctx, v, sh)
	if err != nil {
		return nil, err
	}
	columns := make([]*column, len(v.Fields))
	for i, f := range v.Fields {
		if c := sh.column(f.Name); c != nil && c.known() && !slices.Contains(gone, c.name) && !(v.Kind == "counter" && i == len(v.Fields)-1) {
			columns[i] = c
		}
	}
	return func(field int, value any) error {
		if columns[field] == nil {
			return nil
		}
		_, err := columns[field].convert(value)
		return err
	}, nil
}

// Fitter asks the first shard, because the shards' tables are alike.
func (s *Sharded) Fitter(ctx context.Context, v *replicator.View) (func(field int, value any) error, error) {
	return s.shards[0].Fitter(ctx, v)
}
