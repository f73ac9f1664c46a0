package replicator

import "context"

// Tidier is a Target that can find what stands where its views' own things stand and came from no cell that it knows
// of: from before the program kept the view, or because somebody else put it there.
type Tidier interface {
	// Unclaimed pages through cells that a view's target has entries of but the sink has no state for: from before the
	// program kept it. None where the target doesn't say which cell an entry is of.
	Unclaimed(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Strays pages through them, after the place that an earlier call returned as next ("" at first); an empty next is the
	// end. What it returns was a stray at some moment of the call, whatever is applied meanwhile. limit is how many things
	// are looked at, more or less.
	Strays(ctx context.Context, view int, after string, limit int) (strays []Stray, next string, err error)

	// Tidy removes, or puts right, those that are strays still, and returns how many that were.
	Tidy(ctx context.Context, view int, strays []Stray) (mended int, err error)
}

// Relinquisher is a Target that remembers what cells put into its views by earlier definitions of these.
type Relinquisher interface {
	// Relinquish takes that away, after a fill, where it is of cells that feed the view no more.
	Relinquish(ctx context.Context) error
}

// Stray is something in a view's target that came from no cell.
type Stray struct {
	Name string // where it is, as a person would look for it: a key, a key and a member, a document's id, a group
	At   string // the same for the target
	Kind DifferenceKind
}
