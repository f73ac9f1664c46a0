package judge

import "replicator"

// Difference says what is wrong with a view's content for a key; "" if nothing is. want: the view should have content.
// held: it has content. right: all of its content is correct.
func Difference(want, held, right bool) replicator.DifferenceKind {
	switch {
	case want == held && (right || !want):
		return ""
	case !held:
		return replicator.Missing
	case !want:
		return replicator.Extra
	}
	return replicator.Stale
}
