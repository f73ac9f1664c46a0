package replicator

// Difference is a cell whose contribution to a view is wrong.
type Difference struct {
	Op   int // its place among the ops
	View int
	Kind DifferenceKind
	Err  error // why the cell is Dead, as far as the value alone can tell

	// States are the sink's states of the entity's cells that are among the ops, in a fixed order.
	States []State

	// Held is the view's actual content for the cell, to be shown to people, as far as other cells' contributions allow
	// to tell. For a counter or a ranking it is the sink's total for the cell.
	Held []Entry

	// Name is where a Tidier would find the wrong entry as an orphan; "" if it would not treat the entry as one.
	Name string

	Shards []string // of a sharded sink: the shards whose content is wrong
}

// DifferenceKind says what is wrong.
type DifferenceKind string

const (
	Missing DifferenceKind = "missing" // the view shows nothing of the cell and should
	Stale   DifferenceKind = "stale"   // it holds something else
	Extra   DifferenceKind = "extra"   // the view shows something of the cell and should not
	Dead    DifferenceKind = "dead"    // the view shows nothing of the cell because it is a dead letter
)
