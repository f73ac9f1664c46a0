package judge

import "replicator"

// Difference says what is wrong with what a view holds of a key: want says that it should hold something, held that it
// does, right that all it holds is what it should. "" if nothing is wrong.
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
