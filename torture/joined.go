package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// groupsTable is the table that views of plain rows join. It has one row for each group, and each row may refer to
// another group.
var groupsTable = Table{Name: "grps", Shape: grps, Key: groupKey}

// keptGroups are the groups that always exist. The reader watches their labels, which only grow.
var keptGroups = groups[:2]

// joinTables makes the views of tables with plain rows show joined rows in some plans. Plans with a topic have no
// joins, because the program can't read another table as of a position in a topic.
func (p *Plan) joinTables() {
	for i := range p.Tables {
		p.Tables[i].Joined = p.Topic == nil && p.Seed%3 > 0 && p.Tables[i].Shape == rows
	}
}

// joins reports whether the views of any table join the groups table.
func (p Plan) joins() bool {
	return slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Joined })
}

// hurtTable returns the table that the fault's argument selects. It may be the groups table.
func (p Plan) hurtTable(f Fault) Table {
	if p.joins() && f.Arg%3 == 0 {
		return groupsTable
	}
	return p.Tables[int(f.Arg)%len(p.Tables)].holding(int(f.Arg / 2))
}

// isWhole reports whether the view shows whole rows, and not single values.
func (v View) isWhole() bool {
	return slices.Contains([]string{"row", "hash", "json", "document"}, v.Kind)
}

// joined returns the view's fields from joined rows: the label of the row's group, the label of the group that this
// group refers to, and for some kinds the number of rows in the group.
func (v View) joined(t Table) []string {
	switch {
	case !t.Joined || !v.isWhole():
		return nil
	case v.Kind == "row" || v.Kind == "hash":
		return []string{"label", "up", "peers"}
	}
	return []string{"label", "up"}
}

func (v View) joinToml(t Table) string {
	b := &strings.Builder{}
	for _, name := range v.joined(t) {
		switch name {
		case "label":
			fmt.Fprintf(b, "[views.%s.join.of]\ntable = \"grps\"\non = { grp = \"grp\" }\n", v.Name)
		case "up":
			fmt.Fprintf(b, "[views.%s.join.above]\ntable = \"grps\"\non = { grp = \"of.up\" }\n", v.Name)
		case "peers":
			fmt.Fprintf(b, "[views.%s.join.peers]\ntable = %q\non = { grp = \"grp\" }\nmany = true\nfields = [\"n\"]\n", v.Name,
				t.Name)
		}
	}
	return b.String()
}

// joinedPaths are the configured paths of the joined fields, by field name.
var joinedPaths = map[string]string{"label": "of.label", "up": "above.label", "peers": "=len(peers)"}

// prepareGroups creates the groups table in each of the source's databases, with the groups that always exist.
func (w *workload) prepareGroups(ctx context.Context, r *rand.Rand) error {
	for _, part := range w.parts {
		if _, err := w.db.ExecContext(ctx, groupsTable.ddl(part)); err != nil {
			return err
		}
		for _, group := range keptGroups {
			if err := w.putGroup(ctx, w.db, part, group, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *workload) changeGroup(ctx context.Context, tx execer, r *rand.Rand) error {
	part, group := pick(r, w.parts...), pick(r, groups...)
	if slices.Contains(keptGroups, group) || r.IntN(4) > 0 {
		return w.putGroup(ctx, tx, part, group, r)
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM "+part+".grps WHERE grp = ?", group)
	return err
}

func (w *workload) putGroup(ctx context.Context, tx execer, part, group string, r *rand.Rand) error {
	var up any
	if r.IntN(4) > 0 {
		up = pick(r, groups...)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+part+`.grps (grp, label, up) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE label = GREATEST(label, VALUES(label)), up = VALUES(up)`, group, w.n.Add(1), up)
	return err
}

// lookAtLabel reads the group that a view shows for a key, and the label of that group. It records an error if the
// label is lower than before.
func (r *reader) lookAtLabel(ctx context.Context, v View, t Table, entity int) error {
	shown, err := r.groupAndLabel(ctx, v, t, entity)
	if err == nil && slices.Contains(keptGroups, shown["grp"]) {
		r.judge(fmt.Sprintf("%s: group %s of", v.Name, shown["grp"]), entity, shown["label"])
	}
	return err
}

func (r *reader) groupAndLabel(ctx context.Context, v View, t Table, entity int) (fields, error) {
	switch v.Sink {
	case "cache":
		return r.w.redis.HGetAll(ctx, r.w.at.prefix+v.Name+":"+t.Key.of(entity)).Result()
	case "main":
		var group string
		var label sql.NullString
		err := r.row(ctx, v, t, t.Key.values(entity), "grp, label").Scan(&group, &label)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		return fields{"grp": group, "label": label.String}, err
	default:
		return r.w.document(ctx, v, t.Key.of(entity))
	}
}
