package replicator

import "context"

// Shadower is a Sink that can build views beside the live ones and swap them in.
type Shadower interface {
	// Shadow is the view that stands in for v while it is rebuilt: the same contents under another name, in another
	// target. Its Name ends in ShadowSuffix and its Shadows is v's name; Open makes the target, like v's own.
	Shadow(v *View) *View

	// Foreign says why the view can't be rebuilt beside its target: that has what is not the view's, and that a swap would
	// lose, or no room for another one beside it; "" if it can.
	Foreign(ctx context.Context, v *View) (string, error)

	// Swap puts what the views' shadows hold in the views' place, with its states and marks: all of them or none, at once
	// for every reader. If it fails half-way, or the program dies, the next Swap, or the next Open of one of the views,
	// completes it. Views that can't be swapped are named by OfView; their shadows are then what they were. Afterwards
	// there are no shadows. Nobody applies to these views meanwhile; a second replicator that tries has to Open anew.
	Swap(ctx context.Context, source string, views []*View) error

	// Discard removes what is left of the views' shadows and, after a swap, of what the views held before.
	Discard(ctx context.Context, views []*View) error
}

// ShadowSuffix ends the name of a view's shadow. No view's own name may hold an @.
const ShadowSuffix = "@rebuild"
