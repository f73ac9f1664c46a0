package pipeline

import (
	"slices"
	"strings"

	"replicator"
)

// viewSet is a set of views that run together, in a fixed order.
type viewSet []*replicator.View

func (vs viewSet) names() []string {
	names := make([]string, len(vs))
	for i, v := range vs {
		names[i] = v.Name
	}
	return names
}

func (vs viewSet) words() string {
	var names []string
	for _, v := range vs {
		if name := v.ShownAs(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// live returns the views that are not shadows (second copies of views, which rebuilds fill).
func (vs viewSet) live() viewSet {
	return slices.DeleteFunc(slices.Clone(vs), func(v *replicator.View) bool { return v.Shadows != "" })
}

func (vs viewSet) feeds(c replicator.Cell) bool {
	return slices.ContainsFunc(vs, func(v *replicator.View) bool { return v.Feeds(c) })
}

func (vs viewSet) joins(c replicator.Cell) bool {
	return slices.ContainsFunc(vs, func(v *replicator.View) bool { return len(v.Joins) > 0 && v.Feeds(c) })
}

func (vs viewSet) fedBy(table string) (of viewSet) {
	for _, v := range vs {
		if slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table == table }) {
			of = append(of, v)
		}
	}
	return of
}

func (vs viewSet) reading(table string) viewSet {
	of := vs.fedBy(table)
	for _, v := range vs {
		if v.Joined(table) && !slices.Contains(of, v) {
			of = append(of, v)
		}
	}
	return of
}

// columns returns which kinds of the table's cells (values of its column role) the views read; empty: all kinds.
func (vs viewSet) columns(table string) []string {
	var columns []string
	for _, v := range vs {
		for _, f := range v.From {
			switch {
			case f.Table != table:
			case f.Column == "":
				return nil
			case !slices.Contains(columns, f.Column):
				columns = append(columns, f.Column)
			}
		}
	}
	return columns
}

func (vs viewSet) without(others []*replicator.View) viewSet {
	return slices.DeleteFunc(slices.Clone(vs), func(v *replicator.View) bool { return slices.Contains(others, v) })
}
