package service

import (
	"encoding/json"
	"slices"
	"strings"

	"replicator"
)

// ExplainedJoin lists the rows that a view's join finds for one row.
type ExplainedJoin struct {
	Join      string      `json:"join"`
	Condition string      `json:"condition"`       // such as "customers.id = orders.customer_id = 7"
	Where     string      `json:"where,omitempty"` // filter that found rows must pass
	Found     int         `json:"found"`           // the number of rows found; counting stops above MaxJoined (10,000)
	Rows      []JoinedRow `json:"rows"`            // the first rows found, at most shownJoined
}

type JoinedRow struct {
	Table   string          `json:"table"`
	Key     string          `json:"key"`
	Column  string          `json:"column,omitempty"`
	Version int64           `json:"version"`
	Row     json.RawMessage `json:"row"` // the row's decoded body, or its columns
}

// shownJoined is the maximum number of rows of a join in an explanation.
const shownJoined = 50

func (o *inspection) joins(view *replicator.View, row *replicator.Row, readable bodies) []ExplainedJoin {
	lookups, names := view.Lookups()
	var all []ExplainedJoin
	for i, l := range lookups {
		joined := row.Joined[l.ID]
		j := view.Joins[slices.IndexFunc(view.Joins, func(j replicator.Join) bool { return j.Name == names[i] })]
		e := ExplainedJoin{Join: j.Name, Where: j.Where, Found: len(joined), Rows: []JoinedRow{},
			Condition: o.condition(row, &l, lookups, names)}
		for _, r := range joined[:min(len(joined), shownJoined)] {
			e.Rows = append(e.Rows, JoinedRow{Table: r.Cell.Table, Key: r.Cell.Key.String(), Column: r.Cell.Column,
				Version: r.Version, Row: readable.row(r)})
		}
		all = append(all, e)
	}
	return all
}

// condition returns the condition by which a join finds rows, with the row's values, such as "customers.id =
// orders.customer_id = 7".
func (o *inspection) condition(row *replicator.Row, l *replicator.Lookup, lookups []replicator.Lookup,
	names []string) string {
	var parts []string
	for _, on := range l.On {
		from, table := row, row.Cell.Table
		if on.From != "" {
			at := slices.IndexFunc(lookups, func(l replicator.Lookup) bool { return l.ID == on.From })
			table, from = lookups[at].Table, nil
			if found := row.Joined[on.From]; len(found) > 0 {
				from = found[0]
			} else {
				parts = append(parts, l.Table+"."+on.Column+" = "+table+"."+on.Path+" of "+names[at]+", which has no row")
				continue
			}
		}
		value := "NULL"
		if v := o.columnOf(from, on.Path); v != nil {
			if key, err := replicator.MakeKey(v); err == nil {
				value = key.String()
			}
		}
		parts = append(parts, l.Table+"."+on.Column+" = "+table+"."+on.Path+" = "+value)
	}
	return strings.Join(parts, " and ")
}

// columnOf returns the row's value of a column, which may also be a key column.
func (o *inspection) columnOf(row *replicator.Row, name string) any {
	is := func(other string) bool { return strings.EqualFold(name, other) }
	if i := slices.IndexFunc(row.Names, is); i >= 0 {
		return row.Columns[i]
	}
	t := o.tables[slices.IndexFunc(o.tables, func(t replicator.Table) bool { return t.Name == row.Cell.Table })]
	if t.Column != "" && is(t.Column) {
		return row.Cell.Column
	}
	key, err := row.Cell.Key.Values()
	if i := slices.IndexFunc(t.Key, is); i >= 0 && err == nil {
		return key[i]
	}
	return nil
}
