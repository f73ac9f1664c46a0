package mysql

import (
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// gather returns what the entity's cells, at every source, contribute to a view after the batch. The contributions are
// in the order in which the view takes a field's value from them (judge.Order).
func (t *Target) gather(k *keeper, entity string, items []*item, states *batchStates) ([][]row, error) {
	current := map[string]cellState{}
	for _, s := range states.own[entity] {
		current[s.cell] = s.views
	}
	first, _ := findItem(items, entity, "")
	for _, it := range items[first:] {
		if it.entity != entity {
			break
		}
		current[it.cell] = it.after
	}
	var all []contribution
	add := func(cell string, rows []row) (err error) {
		all, err = t.contributed(all, entity, cell, rows)
		return err
	}
	for id, state := range current {
		kept := state.find(k.id).contribution()
		if kept == "" {
			continue
		}
		rows, err := parseRows(kept)
		if err == nil {
			err = add(id, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := states.shown(k, entity, items, add); err != nil {
		return nil, err
	}
	return inOrderOf(k.view, all), nil
}

type contribution struct {
	cell replicator.Cell
	rows []row
}

func (t *Target) contributed(all []contribution, entity, cell string, rows []row) ([]contribution, error) {
	c, err := parseCell(t.source, entity, cell)
	return append(all, contribution{c, rows}), err
}

// inOrderOf sorts contributions in the order in which the view takes a field's value from them (judge.Order), and
// returns the rows of each.
func inOrderOf(v *replicator.View, all []contribution) [][]row {
	slices.SortStableFunc(all, func(a, b contribution) int { return judge.Order(v, a.cell, b.cell) })
	rows := make([][]row, len(all))
	for i, c := range all {
		rows[i] = c.rows
	}
	return rows
}
