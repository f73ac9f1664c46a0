package replicator

import "context"

// Tidier is a Target that can find strays: entries in its views' targets that came from no cell. They are older than
// the view, or another program wrote them.
type Tidier interface {
	// Unclaimed lists the cells that strays seem to come from, a page at a time: the view's target shows these cells,
	// and the sink has no state of them. For example, a table may have had rows before the view was made. The list is
	// empty if entries don't identify their cells. For a counter, Unclaimed may correct the sums instead.
	Unclaimed(ctx context.Context, view int, after string, limit int) (cells []Cell, next string, err error)

	// Strays lists entries that came from no cell, a page at a time: after is "" first and then the next of the last call,
	// until next is empty. Each entry was a stray at some moment of the call, even if Apply ran at the same time. limit
	// is roughly how many entries are examined.
	Strays(ctx context.Context, view int, after string, limit int) (strays []Stray, next string, err error)

	// Tidy removes or corrects those strays that are still strays, and returns their number.
	Tidy(ctx context.Context, view int, strays []Stray) (mended int, err error)
}

// Relinquisher is a Target that remembers what cells contributed under earlier definitions of its views.
type Relinquisher interface {
	// Relinquish is called after a fill. It removes the contributions of cells that fed a view under its earlier
	// definition and don't feed it now.
	Relinquish(ctx context.Context) error
}

// Stray is an entry in a view's target that came from no cell.
type Stray struct {
	Name string // the entry's name for people: a key, a key and a member, a document's ID, a group
	At   string // where the entry is; only the target understands the text
	Kind DifferenceKind
}
