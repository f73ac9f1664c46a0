package replicator

import "context"

// Shadower is a Sink that can rebuild a view in a second copy, its shadow, and then swap the two.
type Shadower interface {
	// Shadow returns the view that is filled instead of v during a rebuild: the same contents under a different name,
	// in a table or index of its own, which Open creates. The shadow's Name ends in ShadowSuffix, and its Shadows is
	// v's name.
	Shadow(v *View) *View

	// Foreign says why the view can't be rebuilt in a shadow; "" if it can. For example, the view's target holds
	// columns or rows that don't belong to the view and that a swap would lose, or the server has no room for a second
	// copy.
	Foreign(ctx context.Context, v *View) (string, error)

	// Swap replaces the views by their shadows, with everything that the sink remembers of them: all or none, at once
	// for every reader. The next Swap or Open of the views completes an interrupted one. An OfView error names views
	// that can't be swapped, and leaves all shadows unchanged. After a swap, the sink has no Marks of the shadows. No
	// process may apply to these views during the swap, and other processes must Open them again after it.
	Swap(ctx context.Context, source string, views []*View) error

	// Discard removes the views' shadows, and former contents of the views that swaps have left.
	Discard(ctx context.Context, views []*View) error
}

// ShadowSuffix ends the name of a view's shadow. The name of a configured view can't contain an @.
const ShadowSuffix = "@rebuild"
