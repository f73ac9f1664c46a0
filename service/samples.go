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

// Samples evaluates a view's fields for a few current rows of a shard. It returns a summary of each field's values, in
// the order of View.Fields. Samples ignores the view's `where` and values that can't be computed.
func Samples(ctx context.Context, cfg *config.Config, shard config.Shard, v *replicator.View) ([]seen.Values, error) {
	sampled := make([]seen.Values, len(v.Fields))
	tables := cfg.ShardTables(shard)
	evaluator, err := evaluating(cfg, probesOf(v), tables)
	if err != nil {
		return nil, err
	}
	rows := map[string]*survey.Table{}
	for i := range tables {
		t := &tables[i]
		if !slices.Contains(replicator.TablesOf([]*replicator.View{v}), t.Name) {
			continue
		}
		rows[t.Name], err = survey.Sample(ctx, shard.DSN.Reveal(), t.Database, t.Table, rowColumns(t))
		if err != nil {
			return nil, replicator.OfSource(err)
		}
	}
	for i := range tables {
		t := &tables[i]
		if rows[t.Name] == nil || !fedBy(v, t.Name) {
			continue
		}
		for n := range rows[t.Name].Rows {
			cell, row := sampledRow(t, rows[t.Name], n)
			row.Joined = sampledJoins(v, n, tables, rows, nil)
			for _, value := range evaluator.Evaluate(cell, row) {
				for _, e := range value.Entries {
					add(&sampled[value.View], e.Fields[0])
				}
			}
		}
	}
	return sampled, nil
}

// evaluating compiles views. It also sets the tables' Columns to the columns that the views need.
func evaluating(cfg *config.Config, views []*replicator.View,
	tables []replicator.Table) (replicator.Evaluator, error) {
	for i := range tables {
		needed, optional, err := view.Columns(views, tables, tables[i].Name)
		if err != nil {
			return nil, InvalidError{err}
		}
		tables[i].Columns = slices.Concat(needed, optional)
	}
	return compile(cfg, views, tables)
}

// sampledJoins pairs the n-th sampled row with arbitrary sampled rows of the tables that the view joins. The rows need
// not satisfy the join's condition. usable says which rows may be used; nil allows all.
func sampledJoins(v *replicator.View, n int, tables []replicator.Table, rows map[string]*survey.Table,
	usable func(table string, n int) bool) map[string][]*replicator.Row {
	const several = 3
	joined := map[string][]*replicator.Row{}
	lookups, _ := v.Lookups()
	for _, l := range lookups {
		of := rows[l.Table]
		i := slices.IndexFunc(tables, func(t replicator.Table) bool { return t.Name == l.Table })
		if of == nil || i < 0 {
			continue
		}
		for k := range min(several, of.Rows) {
			if at := (n + k) % of.Rows; usable == nil || usable(l.Table, at) {
				_, row := sampledRow(&tables[i], of, at)
				joined[l.ID] = append(joined[l.ID], row)
			}
			if !l.Many && joined[l.ID] != nil {
				break
			}
		}
	}
	return joined
}

func add(to *seen.Values, v any) {
	if text, ok := v.(replicator.RawJSON); ok {
		decoded, err := codec.JSON(text)
		if err != nil {
			return // can't happen, because servers store only valid JSON
		}
		v = decoded
	}
	to.Add(v)
}

func probesOf(v *replicator.View) []*replicator.View {
	probes := make([]*replicator.View, len(v.Fields))
	for i := range v.Fields {
		probes[i] = probe(v, i)
	}
	return probes
}

// probe returns a view with only one field of v, which it evaluates as v does.
func probe(v *replicator.View, field int) *replicator.View {
	p := &replicator.View{Name: v.Name, Kind: "row", From: v.From, Joins: v.Joins,
		Fields: v.Fields[field : field+1]}
	if v.Kind == "index" || v.Kind == "counter" && field < len(v.Fields)-1 {
		p.Kind = "index" // an index evaluates each element of a list separately
	}
	return p
}

func rowColumns(t *replicator.Table) []string {
	return slices.Concat(t.Key, t.Columns, []string{t.Column, t.Version, t.Body})
}

// sampledRow returns the n-th sampled row of a table, as a scan would read it. If the row's key is unusable, the cell
// has no key, but the row has its other values.
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
			return nil // a scan would fail at this value and report it
		}
		return v
	}
	row := &replicator.Row{Names: t.Columns}
	if slices.Contains(t.Columns, "*") { // all columns except the body, as a reader returns them
		row.Names = nil
		for _, c := range rows.Columns {
			if !strings.EqualFold(c.Name, t.Body) {
				row.Names = append(row.Names, c.Name)
			}
		}
	}
	for _, name := range row.Names {
		row.Columns = append(row.Columns, value(name))
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
