package replicator

import "context"

// Tidier is a Comparer that can find what its Held can't name a cell for: things that stand where the view's own stand, and that
// no cell ever contributed, because somebody else put them there.
type Tidier interface {
	// Strays pages through them, after the place that an earlier call returned as next ("" at first); an empty next is the end.
	// What it returns was a stray at some moment of the call, whatever is applied meanwhile. limit is how many things are looked
	// at, more or less.
	Strays(ctx context.Context, view int, after string, limit int) (strays []Stray, next string, err error)

	// Tidy removes, or puts right, those that are strays still, and returns how many that were.
	Tidy(ctx context.Context, view int, strays []Stray) (mended int, err error)
}

// Stray is something in a view's target that came from no cell.
type Stray struct {
	Name string // where it is, as a person would look for it: a key, a key and a member, a document's id, a group
	At   string // the same for the target
	Kind DifferenceKind
}
