package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

var (
	_ replicator.Emptier = (*Sink)(nil)
	_ replicator.Emptier = (*Sharded)(nil)
)

// Left implements replicator.Emptier. A table can be removed only if the program made each of its columns, and no
// trigger or foreign key depends on it.
func (s *Sink) Left(ctx context.Context, view string) (left []replicator.Leftover, err error) {
	shapes, err := s.leftTables(ctx, view)
	for i := 0; i < len(shapes) && err == nil; i++ {
		one := replicator.Leftover{What: "table " + shapes[i].name(), Of: "rows"}
		if s.shard != "" {
			one.What += " in shard " + s.shard
		}
		err = classify(s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+shapes[i].quoted()).Scan(&one.Count), one.What)
		left = append(left, one)
	}
	return left, err
}

// Empty implements replicator.Emptier. It drops the tables that Left lists.
func (s *Sink) Empty(ctx context.Context, view string) error {
	shapes, err := s.leftTables(ctx, view)
	for i := 0; i < len(shapes) && err == nil; i++ {
		_, err = s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+shapes[i].quoted())
		err = s.withGrant(ctx, classify(err, "dropping table "+shapes[i].name()), err, s.database)
	}
	return err
}

// leftTables returns the tables of a view that was removed from the configuration, and of its rebuild. It fails if one
// of them may not be dropped.
func (s *Sink) leftTables(ctx context.Context, view string) (shapes []*shape, err error) {
	tables, err := texts(ctx, s.db, "SELECT DISTINCT target FROM "+viewsTable+" WHERE name IN (?, ?) AND target <> ''",
		view, view+replicator.ShadowSuffix)
	if err != nil {
		return nil, ofViews(err)
	}
	for _, table := range tables {
		others, err := texts(ctx, s.db, "SELECT DISTINCT name FROM "+viewsTable+
			" WHERE target = ? AND name IS NOT NULL AND name NOT IN (?, ?)",
			table, view, view+replicator.ShadowSuffix)
		if err != nil {
			return nil, classify(err, "table "+viewsTable)
		}
		if len(others) > 0 {
			return nil, replicator.Fatal(fmt.Errorf("table %s is not removed, because it now holds view %s", table,
				strings.Join(others, ", ")))
		}
		sh, err := s.readShape(ctx, table)
		if err != nil {
			return nil, err
		}
		if sh == nil {
			continue
		}
		if err := s.removable(ctx, sh); err != nil {
			return nil, err
		}
		shapes = append(shapes, sh)
	}
	return shapes, nil
}

func (s *Sink) removable(ctx context.Context, sh *shape) error {
	refuse := func(why string) error {
		return replicator.Fatal(fmt.Errorf("table %s is not removed, because %s. "+
			"To remove its rows, run `DELETE FROM %s` there",
			sh.name(), why, sqlname.Quote(sh.database)+"."+sqlname.Quote(sh.table)))
	}
	var theirs []string
	for _, c := range sh.columns {
		if !c.isOurs() {
			theirs = append(theirs, c.name)
		}
	}
	if sh.isView || len(theirs) > 0 {
		return refuse("another program created it, or some of its columns: " + strings.Join(theirs, ", "))
	}
	foreign, err := s.dependents(ctx, sh)
	if err == nil && len(foreign) > 0 {
		err = refuse("a trigger or foreign key depends on it: " + strings.Join(foreign, ", "))
	}
	return err
}

// Left implements replicator.Emptier. It lists what the view left in any shard.
func (s *Sharded) Left(ctx context.Context, view string) (left []replicator.Leftover, err error) {
	errs := make([]error, len(s.shards))
	for i, shard := range s.shards {
		some, err := shard.Left(ctx, view)
		left, errs[i] = slices.Concat(left, some), err
	}
	return left, errors.Join(errs...)
}

// Empty implements replicator.Emptier. Every shard drops the tables that its Left lists.
func (s *Sharded) Empty(ctx context.Context, view string) error {
	return s.each(func(shard int) error { return s.shards[shard].Empty(ctx, view) })
}
