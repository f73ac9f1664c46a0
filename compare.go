package replicator

// Difference is a cell whose contribution to a view is wrong.
type Difference struct {
	Op   int // index of the cell's op in the ops that were compared
	View int
	Kind DifferenceKind
	Err  error // for Dead: why the contribution can't be computed; nil if the sink rejected it

	// States are the sink's states of the cell and of all other compared cells with the same key, in a fixed order.
	States []State

	// Held is what the view holds for the cell, for messages. If several cells share an entry, Held may be incomplete.
	// For a counter or a ranking, Held is the amount that the sink remembers for the cell, because the shown sum
	// includes other cells.
	Held []Entry

	// Name is the wrong entry's name if the search for strays (Tidier.Strays) may find the same entry, which then must
	// not count twice; otherwise "".
	Name string

	Shards []string // the shards in which the view is wrong; empty: the sink has no shards
}

// DifferenceKind says in what way a view is wrong about a cell.
type DifferenceKind string

const (
	Missing DifferenceKind = "missing" // the view should show the cell and does not
	Stale   DifferenceKind = "stale"   // the view shows something else for the cell than it should
	Extra   DifferenceKind = "extra"   // the view shows the cell and should not
	Dead    DifferenceKind = "dead"    // the view shows nothing of the cell because it is a dead letter
)
