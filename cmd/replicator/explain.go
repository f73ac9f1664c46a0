package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
)

func explainCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "explain VIEW KEY",
		Short: "Show one entity: its cells, what the view should hold, what the sink holds, and why they differ",
		Long: `Shows one entity: the newest row of each of its cells in the source, what the view should hold of it, what the sink holds
instead, which version the sink applied last, and the entity's dead letters. KEY is as listings show it: 32 hexadecimal digits or a
UUID for 16 bytes; the parts of a key of several columns are joined by ":".`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadViews(o, args[:1])
			if err != nil {
				return err
			}
			log, err := o.logger()
			if err != nil {
				return err
			}
			if err := fingerprint(cfg); err != nil {
				return err
			}
			v := &verification{cfg: cfg, log: log, errOut: cmd.ErrOrStderr()}
			return v.explain(cmd.Context(), cfg.View(args[0]), args[1], cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.ValidArgsFunction = o.completeView
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// explanation is what is known of one cell and one view.
type explanation struct {
	View      string            `json:"view"`
	Source    string            `json:"source,omitempty"`
	Table     string            `json:"table"`
	Key       string            `json:"key"`
	Column    string            `json:"column"`
	Exists    bool              `json:"exists"`
	Version   *int64            `json:"version"`       // of the newest row in the source
	Row       json.RawMessage   `json:"row,omitempty"` // its body, or its columns
	Expected  []json.RawMessage `json:"expected"`      // what the view should hold
	Problem   string            `json:"problem,omitempty"`
	Holds     string            `json:"holds"`            // as expected, missing, stale, extra, dead
	Held      []json.RawMessage `json:"held,omitempty"`   // what it holds instead
	Shards    []string          `json:"shards,omitempty"` // of a sink of several: where it differs
	Applied   *int64            `json:"applied_version"`
	AppliedAt string            `json:"applied_position,omitempty"`
	Why       string            `json:"why"`
	Letters   []shownLetter     `json:"dead_letters,omitempty"`

	placed bool   // the place is the version: the newest row's is not known, only where it was read
	spelt  string // how the newest row spells the key, where that is another way
}

// asExpected is what an explanation says of a view that is right.
const asExpected = "as expected"

func (v *verification) explain(ctx context.Context, view *replicator.View, text string, out io.Writer, asJSON bool) error {
	letters := map[replicator.Cell][]shownLetter{}
	err := eachLetter(ctx, v.cfg, view.Name, func(l replicator.DeadLetter) error {
		letters[l.Cell] = append(letters[l.Cell], shown(l))
		return nil
	})
	if err != nil {
		return err
	}
	var all []explanation
	for _, shard := range v.cfg.Source.Shards {
		some, err := v.explainShard(ctx, shard, view, text, letters)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	all = ofShards(all)
	if asJSON {
		return printJSON(out, all)
	}
	for _, e := range all {
		e.print(out)
	}
	return nil
}

// ofShards leaves out what a shard of the source knows nothing of, if another knows the entity: what the view holds is
// that one's.
func ofShards(all []explanation) []explanation {
	known := map[string]bool{}
	for _, e := range all {
		known[e.Source] = known[e.Source] || e.Exists || e.Applied != nil
	}
	if !slices.Contains(slices.Collect(maps.Values(known)), true) {
		return all
	}
	return slices.DeleteFunc(all, func(e explanation) bool { return !known[e.Source] })
}

func (v *verification) explainShard(ctx context.Context, shard config.Shard, view *replicator.View, text string, letters map[replicator.Cell][]shownLetter) (all []explanation, err error) {
	o, err := v.open(ctx, shard, view)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	cells, err := o.cellsOf(ctx, view, text)
	if err != nil {
		return nil, err
	}
	rows, asOf, err := o.reader.Newest(ctx, cells, 0)
	if err != nil {
		return nil, err
	}
	ops := make([]replicator.Op, len(cells))
	for i, row := range rows {
		ops[i] = replicator.Op{Cell: cells[i], Version: replicator.NoVersion, AsOf: asOf, Values: o.evaluator.Evaluate(cells[i], row)}
		if row != nil {
			ops[i].Version = row.Version
		}
	}
	differences, err := o.target.Compare(ctx, ops)
	if err != nil {
		return nil, err
	}
	readable, err := newBodies(o.tables)
	if err != nil {
		return nil, err
	}
	versions, err := o.target.Versions(ctx, cells)
	if err != nil {
		return nil, err
	}
	for i := range cells {
		e := explanation{View: view.Name, Source: shard.Name, Table: cells[i].Table, Key: cells[i].Key.String(), Column: cells[i].Column,
			Exists: rows[i] != nil, Holds: asExpected}
		if rows[i] != nil {
			e.Version, e.placed = &ops[i].Version, rows[i].Version == rows[i].Order
			row := map[string]any{}
			readable.show(row, rows[i])
			if e.Row = replicator.AppendJSON(nil, row); len(row) == 1 { // it could be decoded
				e.Row = replicator.AppendJSON(nil, row["body"])
			}
		}
		if versions[i] != replicator.NoVersion {
			e.Applied = &versions[i]
		}
		if i := slices.IndexFunc(rows, func(r *replicator.Row) bool {
			return r != nil && r.Cell.Table == e.Table && r.Cell.Column == e.Column
		}); i >= 0 && !e.Exists {
			e.spelt = rows[i].Cell.Key.String()
		}
		e.expect(view, ops[i])
		for _, d := range differences {
			if d.Kind == replicator.Dead && d.Op == i && d.Err != nil {
				e.Problem = d.Err.Error()
			}
			if d.Op == i || d.Kind != replicator.Dead && len(cells) > 1 && ops[d.Op].Cell.Key == cells[i].Key {
				e.Holds, e.Shards, e.Held = string(d.Kind), d.Shards, shownEntries(view, d.Held)
			}
		}
		e.Letters = letters[cells[i]]
		e.reason()
		all = append(all, e)
	}
	return all, nil
}

// cellsOf are the cells that feed a view under a key: of every column, where the view takes all, and in every spelling.
func (o *opened) cellsOf(ctx context.Context, view *replicator.View, text string) (cells []replicator.Cell, err error) {
	for _, f := range view.From {
		key, err := parseKey(ctx, o, f.Table, text)
		if err != nil {
			return nil, err
		}
		some := []replicator.Cell{{Table: f.Table, Key: key, Column: f.Column}}
		i := slices.IndexFunc(o.tables, func(t replicator.Table) bool { return t.Name == f.Table })
		if f.Column == "" && o.tables[i].Column != "" || o.reader.MixesSpellings(f.Table) {
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
	return cells, nil
}

// expect fills in what the view should hold.
func (e *explanation) expect(view *replicator.View, op replicator.Op) {
	e.Expected = []json.RawMessage{}
	for _, value := range op.Values {
		if value.Err != nil {
			e.Problem = value.Err.Error()
		}
		e.Expected = append(e.Expected, shownEntries(view, value.Entries)...)
	}
}

func shownEntries(view *replicator.View, entries []replicator.Entry) []json.RawMessage {
	var shown []json.RawMessage
	for _, entry := range entries {
		shown = append(shown, replicator.AppendJSON(nil, entryMembers(view, entry)))
	}
	return shown
}

// reason says in a sentence why things are as they are.
func (e *explanation) reason() {
	switch {
	case e.Holds == string(replicator.Dead):
		e.Why = "not in the view: a dead letter: " + e.deadBecause()
	case e.Problem != "":
		e.Why = "the view should hold nothing of the cell, which can't be computed (" + e.Problem + "), but holds something: it is behind " +
			"(`replicator status` tells the lag), or it was changed by hand (`replicator verify --repair`)"
	case e.Holds == asExpected && e.spelt != "":
		e.Why = "the source takes the key for " + e.spelt + ", which is how its newest row is spelt: the view is to hold nothing under this spelling, and doesn't"
	case e.Holds == asExpected && !e.Exists:
		e.Why = "the source has no such cell, and the view holds nothing of it"
	case e.Holds == asExpected:
		e.Why = "the view is right"
	case e.Applied == nil && !e.Exists:
		e.Why = "the source has no such cell, and none was ever applied: somebody else put it there (`replicator verify --repair` removes it)"
	case e.Applied == nil:
		e.Why = "nothing of the cell was ever applied to this view: it is not filled yet, or was emptied"
	case e.placed:
		e.Why = "the view is behind (`replicator status` tells the lag), or it was changed by hand (`replicator verify --repair`)"
	case e.Version != nil && *e.Applied < *e.Version:
		e.Why = "the view is behind: an older version was applied last (`replicator status` tells the lag)"
	default:
		e.Why = "the sink has applied this version, but holds something else: it was changed by hand (`replicator verify --repair`)"
	}
}

// deadBecause is why the cell is a dead letter. What a server said is known from the letter alone.
func (e *explanation) deadBecause() string {
	switch {
	case e.Problem != "":
		return e.Problem
	case len(e.Letters) > 0:
		return e.Letters[0].Reason
	}
	return "the sink refused it (the letter that says why is not in this state: `replicator run` brings it back)"
}

func (e *explanation) print(out io.Writer) {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatInt(*n, 10)
	}
	name := e.Table
	if e.Column != "" {
		name += "." + e.Column
	}
	fmt.Fprintf(out, "cell      %s %s\n", name, e.Key)
	row := ""
	if e.Row != nil {
		row = ": " + string(e.Row)
	}
	fmt.Fprintf(out, "source    newest version %s%s\n", number(e.Version), row)
	printEntries(out, "view      "+e.View+" should hold: ", e.Expected)
	holds := e.Holds
	if len(e.Shards) > 0 {
		holds += " in shard " + strings.Join(e.Shards, " and in shard ")
	}
	fmt.Fprintf(out, "sink      %s; last applied version %s\n", holds, number(e.Applied))
	if e.Holds != asExpected {
		printEntries(out, "          it holds: ", e.Held)
	}
	for _, l := range e.Letters {
		fmt.Fprintf(out, "dead      %s at %s: %s\n", l.ID, l.Position, l.Reason)
	}
	fmt.Fprintf(out, "because   %s\n\n", e.Why)
}

// printEntries prints entries, each on a line of its own.
func printEntries(out io.Writer, title string, entries []json.RawMessage) {
	fmt.Fprint(out, title)
	if len(entries) == 0 {
		fmt.Fprintln(out, "nothing")
	}
	for i, x := range entries {
		if i > 0 {
			fmt.Fprint(out, strings.Repeat(" ", 10))
		}
		fmt.Fprintf(out, "%s\n", x)
	}
}

// parseKey reads a key as listings show it, by the types of the table's key columns.
func parseKey(ctx context.Context, o *opened, table, text string) (replicator.Key, error) {
	infos, err := o.source.Tables(ctx)
	if err != nil {
		return "", err
	}
	types := map[string]string{}
	var names []string
	for i, t := range o.tables {
		if t.Name == table {
			names = t.Key
			for _, c := range infos[i].Columns {
				types[c.Name] = strings.ToLower(c.Type)
			}
		}
	}
	parts := []string{text}
	if len(names) > 1 {
		parts = strings.SplitN(text, ":", len(names))
	}
	if len(parts) != len(names) {
		return "", usageError{fmt.Errorf("the key of table %s has %d parts: %s", table, len(names), strings.Join(names, ":"))}
	}
	values := make([]any, len(names))
	for i, name := range names {
		if i < len(names)-1 {
			parts[i] = replicator.UnescapePart(parts[i])
		}
		if values[i], err = keyValue(types[name], parts[i]); err != nil {
			return "", usageError{fmt.Errorf("key column %s: %w", name, err)}
		}
	}
	return replicator.MakeKey(values...)
}

// keyValue reads one part of a key.
func keyValue(typ, text string) (any, error) {
	integers := []string{"tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"}
	switch {
	case slices.ContainsFunc(integers, func(kind string) bool { return strings.HasPrefix(typ, kind) }):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer", text)
		}
		return n, nil
	case strings.Contains(typ, "binary"), strings.Contains(typ, "blob"):
		b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil {
			return nil, fmt.Errorf("%q is neither hexadecimal digits nor a UUID", text)
		}
		return b, nil
	}
	return text, nil
}
