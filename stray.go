package replicator

import "context"

// Tidier is a Target that can find orphans: entries in its views' places that came from no cell it knows. They are
// older than the view, or someone else put them there.
type Tidier interface {
	// Unclaimed lists cells that a view's target has entries of but the sink has no state for, a page at a time:
	// entries from before the program kept the view. It lists none if the target doesn't say which cell an entry is of.
	Unclaimed(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Strays lists the orphans, after the next of an earlier call ("" at first). An empty next is the end. Each was an
	// orphan at some moment of the call, whatever is applied meanwhile. limit is roughly how many entries are examined.
	Strays(ctx context.Context, view int, after string, limit int) (strays []Stray, next string, err error)

	// Tidy removes or corrects those strays that are still orphans, and returns how many it did.
	Tidy(ctx context.Context, view int, strays []Stray) (mended int, err error)
}

// Relinquisher is a Target that remembers what cells contributed under earlier definitions of its views.
type Relinquisher interface {
	// Relinquish removes those contributions after a fill, for cells that no longer feed the view.
	Relinquish(ctx context.Context) error
}

// Stray is an orphan: an entry in a view's target that came from no cell.
type Stray struct {
	Name string // where it is: a key, a key and a member, a document's id, a group
	At   string // the same for the target
	Kind DifferenceKind
}
