package replicator

// Feed is what a view is made from: the cells of a table, or only those of one column value.
type Feed struct {
	Table  string // the table's name in the configuration
	Column string // "": every cell of the table
}

// Matches reports whether the cell feeds the view.
func (f Feed) Matches(c Cell) bool {
	return f.Table == c.Table && (f.Column == "" || f.Column == c.Column)
}

// View is what the core knows of a view; its sink knows more (table, key columns, index …).
type View struct {
	Name        string
	Sink        string
	Kind        string   // index, row, counter, hash, json, ranking, document
	From        []Feed   // one, or several that are merged: the first that has a field gives it
	Fields      []string // names at the target, in the order of Entry.Fields
	Fingerprint string   // of the definition: a view whose fingerprint changed holds something else
}

// Feeds reports whether the cell feeds the view.
func (v *View) Feeds(c Cell) bool { return v.Feed(c) >= 0 }

// Feed is the place in From of what the cell feeds; -1 if the cell does not feed the view.
func (v *View) Feed(c Cell) int {
	for i, f := range v.From {
		if f.Matches(c) {
			return i
		}
	}
	return -1
}

// Value is what one cell contributes to one view of a target: no entries, one (a row, a hash, a document, an amount), or
// several (an index over a list).
type Value struct {
	View    int // the view's place in Target.Views
	Entries []Entry
	Err     error // why the contribution could not be computed: the cell then contributes nothing and is a dead letter
}

// Entry is one contribution. Which parts are set depends on the view's kind.
type Entry struct {
	Key    string // redis: the key; elastic: the document's id. From the view's template.
	Member string // redis: the member; elastic: the routing. From the view's template.

	// Fields stand in the order of View.Fields: nil (missing or null), bool, int64, uint64 (only above the largest int64),
	// float64, Number, string, []byte, []any, map[string]any.
	Fields []any
}

// Evaluator computes contributions: the compiled views of one pipeline.
type Evaluator interface {
	// Evaluate returns a value for each of the pipeline's views that the cell feeds. With a nil row the cell is gone and every
	// value is empty. What can't be computed is said in Value.Err, never dropped. Safe for concurrent use.
	Evaluate(cell Cell, row *Row) []Value
}
