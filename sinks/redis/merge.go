package redis

import (
	"slices"
	"strconv"

	"replicator"
	"replicator/sinks/judge"
)

// rowChange makes the change that sets one hash or JSON object. Its fields are merged from the rows that the entity's
// cells contribute to that key.
func (c *changer) rowChange(t viewKey) error {
	ch, cells, err := c.begin(t)
	if ch == nil || err != nil {
		return err
	}
	names := c.moves[0].k.names
	merged, exists, untouched := merge(c.arena, t, names, cells)
	shownByOthers, rows, err := c.claimedByOthers(t)
	if err != nil {
		return err
	}
	if t.kind == kindJSON {
		switch {
		case !exists && shownByOthers:
			ch.shownByOthers = true
		case len(untouched) > 0: // the JSON text can't be made, because the record lacks the values of these fields
			c.leave(t)
		case exists:
			ch.args, ch.strict = []string{merged.json()}, true
		}
		return nil
	}
	ch.fields, ch.strict = len(merged.fields), len(merged.fields) > 0
	ch.args = append(c.args.take(1+2*len(names)), strconv.Itoa(len(merged.fields)))
	for _, f := range merged.fields {
		ch.args = append(ch.args, f.name, f.value)
	}
	others := func(name string) bool { return slices.ContainsFunc(rows, func(r *row) bool { return r.has(name) }) }
	if len(merged.fields)+len(untouched) < len(names) {
		for _, name := range names {
			if !merged.has(name) && !slices.Contains(untouched, name) && !others(name) {
				ch.args = append(ch.args, name)
			}
		}
	}
	for _, m := range c.moves { // remove the fields that only an earlier definition had
		for _, x := range m.old {
			if x.kind != t.kind || x.key != t.key {
				continue
			}
			for _, f := range x.row.fields {
				if !slices.Contains(names, f.name) && !others(f.name) {
					ch.args = append(ch.args, f.name)
				}
			}
		}
	}
	return nil
}

// sortCells sorts cells in the order in which a view takes fields from them: the first cell that has a field provides
// it.
func sortCells(view *replicator.View, cells []cellClaims) {
	slices.SortFunc(cells, func(a, b cellClaims) int { return judge.Order(view, a.cell, b.cell) })
}

// merge merges cells' contributions to a key: each field comes from the first cell that has it. `untouched` lists the
// fields that must stay as they are, because the record does not have their values.
func merge(a *arena, t viewKey, names []string, cells []cellClaims) (merged row, exists bool, untouched []string) {
	rows := make([]*row, 0, few)
	for _, cell := range cells {
		for i := range cell.claims {
			if x := &cell.claims[i]; x.kind == t.kind && x.key == t.key {
				rows = append(rows, x.row)
			}
		}
	}
	if len(rows) == 1 && rows[0].whole && rows[0].follows(names) {
		return *rows[0], true, nil
	}
	merged = row{whole: true, fields: a.fields.take(len(names))}
	for _, name := range names {
		giver := judge.Giver(len(rows), func(i int) bool { return rows[i].has(name) })
		switch {
		case giver < 0:
		case rows[giver].whole:
			merged.fields = append(merged.fields, rows[giver].fields[rows[giver].index(name)])
		default:
			untouched = append(untouched, name)
		}
	}
	return merged, len(rows) > 0, untouched
}

// follows reports whether the row's fields are all among the names, and in the order of the names.
func (r *row) follows(names []string) bool {
	n := 0
	for _, name := range names {
		if n < len(r.fields) && r.fields[n].name == name {
			n++
		}
	}
	return n == len(r.fields)
}

func (r *row) has(name string) bool { return r.index(name) >= 0 }

func (r *row) index(name string) int {
	return slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
}

func (r *row) json() string {
	b := []byte{'{'}
	for i, f := range r.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(replicator.AppendJSON(b, f.name), ':')
		b = append(b, f.value...)
	}
	return string(append(b, '}'))
}
