package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/codec"
	"replicator/config"
	"replicator/internal/nearest"
	"replicator/survey"
	"replicator/view"
)

// fitter is a sink whose target columns or fields can reject values.
type fitter interface {
	// Fitter returns a function that returns nil if a value fits the field with this index in View.Fields, and
	// otherwise says why not. Fitter returns nil if the target doesn't exist yet.
	Fitter(ctx context.Context, v *replicator.View) (func(field int, value any) error, error)
}

// trial evaluates a few rows of the source for the views. Its findings never prevent a run, because a bad row becomes a
// dead letter or stays out of the view.
type trial struct {
	cfg      *config.Config
	shard    config.Shard
	tables   []replicator.Table
	rows     map[string]*survey.Table // sampled rows, by table name
	decodes  map[string][]bool        // by table name: which sampled rows have a decodable body; nil: no bodies
	findings []replicator.Finding
}

// tryOut samples rows of the source and tries to decode their bodies. It uses only the first shard, because all shards
// have the same tables.
func tryOut(ctx context.Context, cfg *config.Config) (*trial, error) {
	shard := cfg.Source.Shards[0]
	t := &trial{cfg: cfg, shard: shard, tables: cfg.ShardTables(shard), rows: map[string]*survey.Table{},
		decodes: map[string][]bool{}}
	for i := range t.tables {
		table := &t.tables[i]
		if !slices.Contains(replicator.TablesOf(cfg.Views), table.Name) {
			continue
		}
		needed, optional, err := view.Columns(cfg.Views, t.tables, table.Name)
		if err != nil {
			return nil, InvalidError{err}
		}
		wanted := slices.Concat(rowColumns(table), needed, optional)
		rows, err := survey.Sample(ctx, shard.DSN.Reveal(), table.Database, table.Table, wanted)
		if err != nil {
			return nil, err
		}
		t.rows[table.Name] = rows
		if table.Body != "" {
			if err := t.bodies(table, rows); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (t *trial) warn(what, fix, format string, args ...any) {
	t.findings = append(t.findings,
		replicator.Finding{What: what, Level: replicator.Warn, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// bodies decodes the sampled bodies with the table's codec, and warns if some can't be decoded.
func (t *trial) bodies(table *replicator.Table, rows *survey.Table) error {
	name := t.cfg.Table(table.Name).Codec
	c, err := codec.New(name)
	if err != nil {
		return InvalidError{err}
	}
	bodies := rows.Values[table.Body]
	decodes := make([]bool, rows.Rows)
	tried, bad := 0, 0
	var wrong error
	for i, body := range bodies {
		if len(body) == 0 {
			continue
		}
		tried++
		if _, err := c.Document(body); err == nil {
			decodes[i] = true
		} else if bad++; wrong == nil {
			wrong = err
		}
	}
	t.decodes[table.Name] = decodes
	what := "table " + table.Name + ": bodies"
	switch {
	case bad > 0:
		t.warn(what, "set their codec (`replicator init --table "+table.Table+"` finds it), or correct the bodies: "+
			"such rows become dead letters", "%d of %d sampled bodies are not %s: %v", bad, tried, name, wrong)
	case tried > 0:
		t.findings = append(t.findings, replicator.Finding{What: what, Level: replicator.OK,
			Detail: fmt.Sprintf("%d sampled bodies are %s", tried, name)})
	}
	return nil
}

// view evaluates the sampled rows for one view. It warns if no row feeds the view, if no row has a property that the
// view names, and if a value doesn't fit the target.
func (t *trial) view(v *replicator.View, fits func(field int, value any) error) error {
	tried, err := t.feeds(v)
	if err != nil || tried == 0 {
		return err
	}
	what := "view " + v.Name
	present := make([]bool, len(v.Fields))
	err = t.each(v, "", func(field int, value any, _ error) {
		present[field] = present[field] || value != nil
	})
	if err != nil {
		return err
	}
	for i, f := range v.Fields {
		if !present[i] && f.Path != "" && !t.isColumn(v, f.Path) && t.joinable(v) {
			t.warn(what, t.otherwise(v, f.Path), "none of %d sampled rows has %s, which field %s reads%s", tried,
				f.Path, f.Name, t.line(v, "fields."+f.Name))
		}
	}
	wrong, first := make([]int, len(v.Fields)), make([]error, len(v.Fields))
	chosen := v.Where == "" || len(v.Fields) == 0
	err = t.each(v, v.Where, func(field int, value any, err error) {
		chosen = true
		if err == nil {
			err = addable(v, field, value)
		}
		if err == nil && fits != nil && value != nil {
			err = fits(field, value)
		}
		if err == nil {
			return
		}
		if wrong[field]++; first[field] == nil {
			first[field] = err
		}
	})
	// With joins, `where` may be false because the sampled joined rows don't belong to the row.
	if !chosen && err == nil && len(v.Joins) == 0 {
		t.warn(what, "correct the expression, unless matching rows are rare",
			"none of %d sampled rows satisfies where: %s", tried, v.Where)
	}
	for i, n := range wrong {
		if n > 0 {
			t.warn(what, "change the view's definition, or its table or index in the sink: "+
				"such rows become dead letters",
				"%d values in %d sampled rows can't be stored: %s: %s",
				n, tried, v.Fields[i].Name, strings.TrimPrefix(first[i].Error(), v.Fields[i].Name+": "))
		}
	}
	return err
}

// line returns " (FILE:LINE)", the place of a view's setting in the configuration; "" if the setting is not there.
func (t *trial) line(v *replicator.View, key string) string {
	if n := t.cfg.Line(v.Name, key); n > 0 {
		return fmt.Sprintf(" (%s:%d)", t.cfg.File, n)
	}
	return ""
}

// otherwise suggests a replacement for a path that no sampled row has: a column of the table, or the property with the
// most similar name.
func (t *trial) otherwise(v *replicator.View, path string) string {
	for _, o := range config.OriginsOf(v, path) {
		rows, table := t.rows[o.Table], t.cfg.Table(o.Table)
		if rows == nil || table.Body == "" {
			continue
		}
		if i := slices.IndexFunc(rows.Columns, func(c survey.Column) bool { return strings.EqualFold(c.Name, o.Path) }); i >= 0 {
			return fmt.Sprintf("the table has this column: write `%s`", config.ColumnPath(rows.Columns[i].Name))
		}
		if near := nearest.Close(o.Path, t.properties(table)); near != "" {
			return strings.TrimPrefix(near, ": ")
		}
	}
	return "correct the path, unless only few rows have it"
}

const mostProperties = 1000

func (t *trial) properties(table *replicator.Table) (paths []string) {
	c, err := codec.New(table.Codec)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	var add func(of replicator.Object, begin string, depth int)
	add = func(of replicator.Object, begin string, depth int) {
		for _, m := range of {
			if len(paths) < mostProperties && !known[begin+m.Name] {
				known[begin+m.Name] = true
				paths = append(paths, begin+m.Name)
			}
			if inner, ok := m.Value.(replicator.Object); ok && depth < 3 {
				add(inner, begin+m.Name+".", depth+1)
			}
		}
	}
	for i, body := range t.rows[table.Name].Values[table.Body] {
		if !t.decodable(table.Name, i) {
			continue
		}
		if document, err := c.Document(body); err == nil {
			add(document, "", 1)
		}
	}
	return paths
}

// addable returns an error if the view sums the field and the value is not a number.
func addable(v *replicator.View, field int, value any) error {
	if v.Kind != "counter" && v.Kind != "ranking" || field != len(v.Fields)-1 {
		return nil
	}
	switch value.(type) {
	case nil, int64, uint64, float64, replicator.Number:
		return nil
	}
	return errors.New("it is not a number, so it can't be added to a sum")
}

// feeds returns the number of sampled rows that feed a view, without the rows whose body can't be decoded. It adds a
// finding for each table of which no sampled row matches the view's `from`.
func (t *trial) feeds(v *replicator.View) (tried int, err error) {
	for _, feed := range v.From {
		rows, table := t.rows[feed.Table], t.cfg.Table(feed.Table)
		if rows == nil || rows.Rows == 0 || feed.Column != "" && rows.Values[table.Column] == nil {
			continue
		}
		matching := 0
		var others []string
		for i := range rows.Rows {
			sort := ""
			if feed.Column != "" {
				sort = string(rows.Values[table.Column][i])
			}
			if feed.Column != sort {
				if !slices.Contains(others, sort) {
					others = append(others, sort)
				}
				continue
			}
			matching++
			if t.decodable(feed.Table, i) {
				tried++
			}
		}
		if matching == 0 {
			slices.Sort(others)
			t.warn("view "+v.Name, "correct `from`, unless matching rows are rare or will come later",
				"none of %d sampled rows belongs to %s.%s; the rows belong to %s",
				rows.Rows, feed.Table, feed.Column, strings.Join(others[:min(len(others), 10)], ", "))
		}
	}
	return tried, nil
}

// isColumn reports whether a path names a column. A column is not reported as missing, because it may just be NULL in
// all sampled rows.
func (t *trial) isColumn(v *replicator.View, path string) bool {
	return slices.ContainsFunc(config.OriginsOf(v, path), func(o config.Origin) bool {
		return config.ColumnOf(*t.cfg.Table(o.Table), o.Path) != ""
	})
}

// joinable reports whether every table that the view joins has sampled rows.
func (t *trial) joinable(v *replicator.View) bool {
	return !slices.ContainsFunc(v.Joins, func(j replicator.Join) bool {
		return t.rows[j.Table] == nil || t.rows[j.Table].Rows == 0
	})
}

// decodable reports whether a sampled row has no body or a body that can be decoded.
func (t *trial) decodable(table string, n int) bool {
	decodes := t.decodes[table]
	return decodes == nil || decodes[n]
}

// each evaluates the view's fields for each sampled row that satisfies the expression `where`. It calls the function
// `do` with each value or error.
func (t *trial) each(v *replicator.View, where string, do func(field int, value any, err error)) error {
	probes := probesOf(v)
	for _, p := range probes {
		p.Where = where
	}
	evaluator, err := evaluating(t.cfg, probes, t.tables)
	if err != nil {
		return err
	}
	for i := range t.tables {
		table := &t.tables[i]
		rows := t.rows[table.Name]
		if rows == nil || !fedBy(v, table.Name) {
			continue
		}
		for n := range rows.Rows {
			if !t.decodable(table.Name, n) {
				continue
			}
			cell, row := sampledRow(table, rows, n)
			row.Joined = sampledJoins(v, n, t.tables, t.rows, t.decodable)
			for _, value := range evaluator.Evaluate(cell, row) {
				if value.Err != nil {
					do(value.View, nil, value.Err)
				}
				for _, e := range value.Entries {
					do(value.View, e.Fields[0], nil)
				}
			}
		}
	}
	return nil
}
