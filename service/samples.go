package service

import (
	"context"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/codec"
	"replicator/config"
	"replicator/internal/seen"
	"replicator/survey"
	"replicator/view"
)

// Samples sums up what the fields of a view are in a few of the rows that a shard of the source has now, in the order
// of View.Fields. It is what the view would keep of these rows, whatever its `where` says: a value that can't be
// computed is left out.
func Samples(ctx context.Context, cfg *config.Config, shard config.Shard, v *replicator.View) ([]seen.Values, error) {
	sampled := make([]seen.Values, len(v.Fields))
	tables := cfg.ShardTables(shard)
	probes := probesOf(v)
	for i := range tables {
		t := &tables[i]
		if !slices.Contains(replicator.TablesOf([]*replicator.View{v}), t.Name) {
			continue
		}
		evaluator, err := evaluating(cfg, probes, tables, t)
		if err != nil {
			return nil, err
		}
		rows, err := survey.Sample(ctx, shard.DSN.Reveal(), t.Database, t.Table, rowColumns(t))
		if err != nil {
			return nil, replicator.OfSource(err)
		}
		for n := range rows.Rows {
			cell, row := sampledRow(t, rows, n)
			for _, value := range evaluator.Evaluate(cell, row) {
				for _, e := range value.Entries {
					add(&sampled[value.View], e.Fields[0])
				}
			}
		}
	}
	return sampled, nil
}

// evaluating compiles views for rows of one of the tables, whose Columns it says.
func evaluating(cfg *config.Config, views []*replicator.View, tables []replicator.Table,
	t *replicator.Table) (replicator.Evaluator, error) {
	needed, optional, err := view.Columns(views, tables, t.Name)
	if err != nil {
		return nil, InvalidError{err}
	}
	t.Columns = slices.Concat(needed, optional)
	return compile(cfg, views, tables)
}

// add adds a value, of JSON what it says.
func add(to *seen.Values, v any) {
	if text, ok := v.(replicator.RawJSON); ok {
		decoded, err := codec.JSON(text)
		if err != nil {
			return // no server keeps such JSON
		}
		v = decoded
	}
	to.Add(v)
}

// probesOf are views of each field of another one.
func probesOf(v *replicator.View) []*replicator.View {
	probes := make([]*replicator.View, len(v.Fields))
	for i := range v.Fields {
		probes[i] = probe(v, i)
	}
	return probes
}

// probe is a view of one field of another's, as that one takes it.
func probe(v *replicator.View, field int) *replicator.View {
	p := &replicator.View{Name: v.Name, Kind: "row", From: v.From, Fields: v.Fields[field : field+1]}
	if v.Kind == "index" || v.Kind == "counter" && field < len(v.Fields)-1 {
		p.Kind = "index" // an element of a list at a time
	}
	return p
}

// rowColumns are the columns of a table that its sampled rows are made of.
func rowColumns(t *replicator.Table) []string {
	return slices.Concat(t.Key, t.Columns, []string{t.Column, t.Version, t.Body})
}

// sampledRow is the n-th of the rows that were sampled of a table, as a scan would read it. Of a row without a usable
// key the other values are seen all the same.
func sampledRow(t *replicator.Table, rows *survey.Table, n int) (replicator.Cell, *replicator.Row) {
	at := func(name string) (c *survey.Column, text []byte) {
		i := slices.IndexFunc(rows.Columns, func(c survey.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			return nil, nil
		}
		c = &rows.Columns[i]
		if values := rows.Values[c.Name]; n < len(values) {
			text = values[n]
		}
		return c, text
	}
	value := func(name string) any {
		c, text := at(name)
		if text == nil {
			return nil
		}
		v, err := canal.TextValue(c.DataType, c.Text, text)
		if err != nil {
			return nil // a type that a scan would stop at, and say so
		}
		return v
	}
	row := &replicator.Row{Names: t.Columns, Columns: make([]any, len(t.Columns))}
	for i, name := range t.Columns {
		row.Columns[i] = value(name)
	}
	key := make([]any, len(t.Key))
	for i, name := range t.Key {
		key[i] = value(name)
	}
	row.Cell.Table = t.Name
	row.Cell.Key, _ = replicator.MakeKey(key...)
	_, column := at(t.Column)
	row.Cell.Column = string(column)
	_, row.Body = at(t.Body)
	row.Version, _ = value(t.Version).(int64)
	return row.Cell, row
}
