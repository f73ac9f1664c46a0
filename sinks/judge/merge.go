package judge

import (
	"cmp"

	"replicator"
)

// Shares reports whether several cells of one key feed the view. hasColumn reports whether a table has a column whose
// values split the rows of one key into several cells.
func Shares(view *replicator.View, hasColumn func(table string) bool) bool {
	return len(view.From) > 1 || len(view.From) == 1 && view.From[0].Column == "" && hasColumn(view.From[0].Table)
}

// Order compares cells of one key by the order in which a view takes fields from them: by their index in View.From, and
// then by column. Cells that no longer feed the view come last.
func Order(view *replicator.View, a, b replicator.Cell) int {
	return cmp.Or(cmp.Compare(rank(view, a), rank(view, b)), cmp.Compare(a.Column, b.Column),
		cmp.Compare(a.Table, b.Table),
		cmp.Compare(a.Key, b.Key))
}

func rank(view *replicator.View, c replicator.Cell) int {
	if n := view.Feed(c); n >= 0 {
		return n
	}
	return len(view.From)
}

// Giver returns the index of the cell that provides a field: the first of n cells, sorted by Order, that has the field;
// -1 if none has.
func Giver(n int, has func(cell int) bool) int {
	for i := range n {
		if has(i) {
			return i
		}
	}
	return -1
}
