package replicator

import "context"

// Comparer is a Target that can be verified: it says what it really holds, whatever its states claim.
type Comparer interface {
	// Compare looks, at one moment, at what the views hold of the ops' cells, and returns where that is not what the ops' Values
	// say. Nothing is written. A value that could not be computed, or that the view can't hold, is nothing to hold: where the view
	// is right about the rest, the cell is Dead. Of a view that several cells of an entity feed all of them must be among the ops.
	Compare(ctx context.Context, ops []Op) ([]Difference, error)

	// Held pages through the cells that a view holds entries of, after the place that an earlier call returned as next ("" at
	// first); an empty next is the end. Of an entity with several cells any one will do.
	Held(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)
}

// Difference is a cell of which a view does not hold what it should.
type Difference struct {
	Op    int // its place among the ops
	View  int
	Kind  DifferenceKind
	State State // what the sink believes
	Err   error // of one that is Dead: why, as far as that can be told from the value alone

	// Held is what the view holds of the cell instead, for people: as far as that can be told from what other cells contribute. Of
	// a counter or a ranking it is what the sink has added up for the cell.
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

// Lister is a Reader that can list the cells of a table.
type Lister interface {
	// Cells returns the next cells that a table has rows of, in the order of their keys, after the place that an earlier call
	// returned as next ("" at first); an empty next is the end. Only cells of the given column values, all if columns is empty.
	Cells(ctx context.Context, table string, columns []string, after string, limit int) (cells []Cell, next string, err error)

	// Siblings returns the cells, of whatever column, that a table has rows of with the given keys.
	Siblings(ctx context.Context, table string, keys []Key) ([]Cell, error)

	// Estimate is about how many rows a table has.
	Estimate(ctx context.Context, table string) (int64, error)
}
