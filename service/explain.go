package service

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/remedy"
	"replicator/server"
)

// Explanation describes one cell in one view.
type Explanation struct {
	View      string            `json:"view"`
	Source    string            `json:"source,omitempty"`
	Table     string            `json:"table"`
	Key       string            `json:"key"`
	Column    string            `json:"column"`
	Amount    json.RawMessage   `json:"amount,omitempty"` // what the cell adds to the sum
	Exists    bool              `json:"exists"`
	Version   *int64            `json:"version"`       // the version of the newest row in the source
	Row       json.RawMessage   `json:"row,omitempty"` // the newest row: its decoded body, or its columns
	Joins     []ExplainedJoin   `json:"joins,omitempty"`
	Expected  []json.RawMessage `json:"expected"`          // the entries that the view should have
	Refused   []json.RawMessage `json:"refused,omitempty"` // the entries that are missing because of a dead letter
	Problem   string            `json:"problem,omitempty"`
	Holds     string            `json:"holds"`            // is the view right? AsExpected, Unknown or a DifferenceKind
	Held      []json.RawMessage `json:"held,omitempty"`   // the entries that the view has, if they aren't Expected
	Shards    []string          `json:"shards,omitempty"` // shards of the sink where entries differ, if it has shards
	Applied   *int64            `json:"applied_version"`
	AppliedAt string            `json:"applied_position,omitempty"`
	Why       string            `json:"why"`
	Letters   []server.Letter   `json:"dead_letters,omitempty"`

	placed bool   // the table has no version column, so Version is the log position at which the row was read
	spelt  string // the key in the newest row, if it is another variant than Key, such as 1.50 for 1.5

	expires   bool // the view's settings make entries expire some time after the last change
	ofAnother bool // the reported difference is only in another cell of the same key
}

// Explanation.Holds has one of these values if the view is right or can't be read. Otherwise it has a DifferenceKind.
const (
	AsExpected = "as expected"
	Unknown    = "unknown"
)

// Explain describes the cells of one entity in one view. key has the form that listings show. If the sink can't be
// read, Explain returns both what it read from the source and the error.
func Explain(ctx context.Context, setup Setup, view *replicator.View, key string) (all []Explanation, err error) {
	if err := asksTables(setup.Config, "explain"); err != nil {
		return nil, err
	}
	letters, err := lettersByCell(ctx, setup.Config, view.Name)
	if err != nil {
		return nil, err
	}
	in := setup.inspector()
	defer func() { err = errors.Join(err, in.close()) }()
	var unopened error
	for _, shard := range setup.Config.Source.Shards {
		some, err := in.explain(ctx, shard, view, key, letters)
		if some == nil && err != nil {
			return nil, err
		}
		unopened = errors.Join(unopened, err)
		all = append(all, some...)
	}
	all = ofShards(all)
	setup.complete(all)
	return all, unopened
}

// complete adds "-c FILE" to the `replicator` commands in the explanations, so that they can be run as shown.
func (s Setup) complete(all []Explanation) {
	for i := range all {
		all[i].Why = remedy.File(s.Config.Path).In(all[i].Why)
	}
}

// ofShards omits explanations from shards that have no data of the entity, unless that is true of all shards. If
// several shards have rows of the entity, Why says so, because the view can show only one of them.
func ofShards(all []Explanation) []Explanation {
	known, having := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		known[e.Source] = known[e.Source] || e.Exists || e.Applied != nil
		if e.Exists {
			having[e.Source] = true
		}
	}
	if len(having) > 1 {
		shards := strings.Join(slices.Sorted(maps.Keys(having)), " and ")
		for i := range all {
			if e := &all[i]; e.Exists && e.Holds != AsExpected && e.Holds != Unknown {
				e.Why = "the source's shards " + shards + " have rows of this entity, and the view shows only one: " +
					"delete the row in one of the shards, unless the entity is moving"
			}
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(known)), true) {
		return all
	}
	return slices.DeleteFunc(all, func(e Explanation) bool { return !known[e.Source] })
}

func (in *inspector) explain(ctx context.Context, shard config.Shard, view *replicator.View, text string,
	letters map[replicator.Cell][]server.Letter) (all []Explanation, err error) {
	o, err := in.inspect(ctx, shard, view)
	unopened := errUnopened{}
	if errors.As(err, &unopened) {
		o, err = in.inspectSource(ctx, shard, view)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	cells, err := o.cellsOf(ctx, view, text)
	if err != nil {
		return nil, err
	}
	if all, err = o.explain(ctx, shard, view, cells, letters); err != nil {
		return nil, err
	}
	for i := range all {
		if o.target == nil {
			all[i].Holds, all[i].Why = Unknown, unopened.Error()
		}
	}
	return all, unopened.error
}

// explain explains cells of one source. Unless the view shows sums, cells must be all cells of an entity that feed the
// view.
func (o *inspection) explain(ctx context.Context, shard config.Shard, view *replicator.View, cells []replicator.Cell,
	letters map[replicator.Cell][]server.Letter) (all []Explanation, err error) {
	rows, asOf, err := o.reader.Newest(ctx, cells, 0)
	if err != nil {
		return nil, err
	}
	ops := make([]replicator.Op, len(cells))
	for i, row := range rows {
		values := o.evaluator.Evaluate(cells[i], row)
		ops[i] = replicator.Op{Cell: cells[i], Version: replicator.NoVersion, AsOf: asOf, Values: values}
		if row != nil {
			ops[i].Version = row.Version
		}
	}
	var differences []replicator.Difference
	var versions []replicator.Span
	if o.target != nil {
		if differences, err = o.target.Compare(ctx, ops); err != nil {
			return nil, err
		}
		if versions, err = o.target.Versions(ctx, cells); err != nil {
			return nil, err
		}
	}
	readable, err := newBodies(o.tables)
	if err != nil {
		return nil, err
	}
	for i := range cells {
		e := Explanation{View: view.Name, Source: shard.Name, Table: cells[i].Table, Key: cells[i].Key.String(),
			Column: cells[i].Column, Exists: rows[i] != nil, Holds: AsExpected, expires: expires(view)}
		if rows[i] != nil {
			e.Version, e.placed = &ops[i].Version, rows[i].Version == rows[i].Order
			e.Row, e.Joins = readable.row(rows[i]), o.joins(view, rows[i], readable)
		}
		if versions != nil && versions[i].Lowest != replicator.NoVersion {
			e.Applied = &versions[i].Lowest // Lowest and Highest are equal, because only one view is open
		}
		if i := slices.IndexFunc(rows, func(r *replicator.Row) bool {
			return r != nil && r.Cell.Table == e.Table && r.Cell.Column == e.Column
		}); i >= 0 && !e.Exists {
			e.spelt = rows[i].Cell.Key.String()
		}
		e.expect(readable, view, ops[i])
		for _, d := range differences {
			if d.Kind == replicator.Dead && d.Op == i && d.Err != nil {
				e.Problem = d.Err.Error()
			}
			if d.Op == i || d.Kind != replicator.Dead && len(cells) > 1 && ops[d.Op].Cell.Key == cells[i].Key {
				e.ofAnother = d.Op != i && (e.ofAnother || e.Holds == AsExpected)
				e.Holds, e.Shards, e.Held = string(d.Kind), d.Shards, readable.entries(view, d.Held)
			}
		}
		e.Letters = o.own(letters[cells[i]])
		e.reason()
		all = append(all, e)
	}
	return all, nil
}

// expires reports whether the view's settings make its entries expire some time after the last change.
func expires(v *replicator.View) bool {
	own, is := v.Settings.(interface{ Expires() bool })
	return is && own.Expires()
}

// cellsOf returns the cells that feed the view under a key: for each value of the table's `column` role that the feed
// includes, and for each variant of the key, such as 1.50 for 1.5.
func (o *inspection) cellsOf(ctx context.Context, view *replicator.View,
	text string) (cells []replicator.Cell, err error) {
	var refused []error
	for _, f := range view.From {
		key, err := parseKey(ctx, o, f.Table, text)
		if invalid := (InvalidError{}); errors.As(err, &invalid) { // the key may still fit another table
			if !slices.ContainsFunc(refused, func(other error) bool { return other.Error() == err.Error() }) {
				refused = append(refused, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		some := []replicator.Cell{{Table: f.Table, Key: key, Column: f.Column}}
		i := slices.IndexFunc(o.tables, func(t replicator.Table) bool { return t.Name == f.Table })
		variants := f.Column == "" && o.tables[i].Column != "" || o.reader.MixesSpellings(f.Table)
		if !variants { // the source's key may be a variant, such as 1.50 for 1.5
			rows, _, err := o.reader.Newest(ctx, some, 0)
			if err != nil {
				return nil, err
			}
			variants = rows[0] == nil
		}
		if variants {
			found, err := o.reader.Siblings(ctx, f.Table, []replicator.Key{key})
			if err != nil {
				return nil, err
			}
			if found = slices.DeleteFunc(found, func(c replicator.Cell) bool { return !f.Matches(c) }); len(found) > 0 {
				some = found
			}
		}
		cells = append(cells, some...)
	}
	if len(cells) == 0 {
		return nil, errors.Join(refused...)
	}
	return cells, nil
}

func (e *Explanation) expect(readable bodies, view *replicator.View, op replicator.Op) {
	e.Expected = []json.RawMessage{}
	for _, value := range op.Values {
		if value.Err != nil {
			e.Problem = value.Err.Error()
		}
		e.Expected = append(e.Expected, readable.entries(view, value.Entries)...)
	}
}

func (b bodies) entries(view *replicator.View, entries []replicator.Entry) []json.RawMessage {
	var shown []json.RawMessage
	for _, e := range entries {
		shown = append(shown, replicator.AppendJSON(nil, b.entry(view, e)))
	}
	return shown
}

func (e *Explanation) reason() {
	switch {
	case e.Holds == string(replicator.Dead): // a dead cell should have no entries in the view
		e.Expected, e.Refused = []json.RawMessage{}, e.Expected
		e.Why = "not in the view: dead letter"
		if len(e.Letters) > 0 {
			e.Why += " " + e.Letters[0].ID
		}
		e.Why += ": " + e.deadBecause()
	case e.Problem != "":
		e.Why = "the cell can't be computed (" + e.Problem + "), so the view should have no entries of it, but has " +
			"some: the view is behind (`replicator status` shows the lag), or it was changed by hand " +
			"(`replicator verify --repair " + e.View + "`)"
	case e.Holds == AsExpected && e.spelt != "":
		e.Why = "the source's newest row spells the key " + e.spelt + ", so the view should have no entries under " +
			"this variant, and it has none"
	case e.Holds == AsExpected && !e.Exists:
		e.Why = "the source has no such cell, and the view has no entries of it"
	case e.Holds == AsExpected && e.expires && len(e.Expected) > 0:
		e.Why = "the view is right: it has these entries, or they have expired since the last change"
	case e.Holds == AsExpected:
		e.Why = "the view is right"
	case e.Applied == nil && !e.Exists && e.ofAnother:
		e.Why = "the source has no such cell, and the sink never applied one. Another cell of the key differs"
	case e.Applied == nil && !e.Exists:
		e.Why = "the source has no such cell, and the sink never applied one: another program wrote the entries " +
			"(`replicator verify --repair " + e.View + "` removes them)"
	case e.Applied == nil:
		e.Why = "the sink never applied this cell: the view is not filled yet, or it was emptied"
	case e.placed, !e.Exists:
		e.Why = "the view is behind (`replicator status` shows the lag), or it was changed by hand " +
			"(`replicator verify --repair " + e.View + "`)"
	case e.Version != nil && *e.Applied < *e.Version:
		e.Why = "the view is behind: it has an older version (`replicator status` shows the lag)"
	case e.Version != nil && *e.Applied > *e.Version:
		e.Why = "the sink has applied a newer version than the source has: the newer row's delete is not applied yet " +
			"(`replicator status` shows the lag), or it was missed (`replicator verify --repair " +
			e.View + "`)"
	default:
		e.Why = "the sink has applied this version, but the view has other entries: it was changed by hand " +
			"(`replicator verify --repair " + e.View + "`)"
	}
}

// deadBecause returns why the cell is a dead letter. If a server rejected the cell, only the letter has the server's
// message.
func (e *Explanation) deadBecause() string {
	switch {
	case e.Problem != "":
		return e.Problem
	case len(e.Letters) > 0:
		return e.Letters[0].Reason
	}
	return "the sink rejected it, and no dead letter gives the reason (`replicator verify --repair " + e.View +
		"` retries it)"
}
