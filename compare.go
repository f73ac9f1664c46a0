package replicator

// Difference is a cell of which a view does not hold what it should.
type Difference struct {
	Op   int // its place among the ops
	View int
	Kind DifferenceKind
	Err  error // of one that is Dead: why, as far as that can be told from the value alone

	// States are what the sink believes of those cells of the entity that are among the ops, in one order.
	States []State

	// Held is what the view holds of the cell instead, for people: as far as that can be told from what other cells
	// contribute. Of a counter or a ranking it is what the sink has added up for the cell.
	Held []Entry

	// Name is where a Tidier would find a stray instead of what should be there; "" if it would not take it for one.
	Name string

	Shards []string // of a sink of several shards: those that don't hold what they should
}

// DifferenceKind says what is wrong.
type DifferenceKind string

const (
	Missing DifferenceKind = "missing" // the view should hold something of the cell and holds nothing
	Stale   DifferenceKind = "stale"   // it holds something else
	Extra   DifferenceKind = "extra"   // it holds something and should hold nothing
	Dead    DifferenceKind = "dead"    // it holds nothing of the cell because that is a dead letter
)
