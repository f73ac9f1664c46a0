package replicator

import "context"

// Shadower is a Sink that can build views beside the live ones and swap them in.
type Shadower interface {
	// Shadow returns the view that stands in for v while it is rebuilt: the same contents under another name, in
	// another target. Its Name ends in ShadowSuffix, and its Shadows is v's name. Open makes the target, like v's own.
	Shadow(v *View) *View

	// Foreign says why the view can't be rebuilt beside its target; "" if it can. The target may hold things that are
	// not the view's and that a swap would lose, or have no room for a second one.
	Foreign(ctx context.Context, v *View) (string, error)

	// Swap replaces the views by their shadows, with states and marks: all of them or none, at once for every reader.
	// If it fails half-way, or the program dies, the next Swap, or the next Open of one of the views, completes it.
	// OfView names views that can't be swapped, and leaves all shadows as they were. After a swap there are no shadows.
	// No process may apply to these views meanwhile. A second replicator that tries must Open them again.
	Swap(ctx context.Context, source string, views []*View) error

	// Discard removes the remains of the views' shadows and, after a swap, the views' former contents.
	Discard(ctx context.Context, views []*View) error
}

// ShadowSuffix ends the name of a view's shadow. No view's own name may hold an @.
const ShadowSuffix = "@rebuild"
