package replicator

// NoVersion is the version of a cell that has no rows.
const NoVersion int64 = -1

// AnyVersion is the version of a Change that does not say what its cell is now: the newest row has to be read from the
// source.
const AnyVersion int64 = 1<<63 - 1

// Op is one operation on a cell: replace its old contributions by Values, if they are newer. There are two:
//
//	put    a row was inserted or updated, or a scan read it: Version is the row's, Order its place, AsOf is 0
//	reset  what the cell is now known to be, by a look in full (a delete, a repair) or because its only row was deleted:
//	       Version is that of the newest row that remains, NoVersion if none does; AsOf is the place up to which that
//	       includes everything; Order is not used
type Op struct {
	Cell    Cell
	Version int64
	Order   int64
	AsOf    int64
	Values  []Value // one for each of the target's views that the cell feeds

	// Rewrite: the values are written even if the state says that the target holds them already. What was changed in a
	// target by hand is put right by that.
	Rewrite bool
}

// State is what a sink remembers of a cell and a view, durably. It decides about every op (Next); nothing else does. A
// sink may remove it once the cell is gone and lies below the view's horizon (Forgettable); what it can't judge without
// it is read again from the source (Unknown). (How a view is doing is ViewStatus.State.)
type State struct {
	Version int64 // of the contributions applied last; NoVersion if the cell is gone or was never seen
	Order   int64 // place of the op applied last: of two rows with one version the later one counts
	AsOf    int64 // place of the last reset: all up to it is known; 0 if there never was one
}

// Covers reports whether the state may be of the very row that a look found. Where the place is the version every look
// has another one, and nothing can be told.
func (s State) Covers(look Op) bool { return s.Version == look.Version || look.Version == look.AsOf }

// Unseen is the state of a cell that a sink knows nothing of.
var Unseen = State{Version: NoVersion}

// Next is the rule that keeps a view right whatever is replayed, reordered or sent by a second replicator:
//
//	put    ignored if it stands at or before the last reset, but for a rewrite of what that found at its place; else
//	       applied if it is not older than what is there
//	reset  ignored if it stands before the last reset, or at its place and found a lower version; else it replaces the
//	       state whatever its version, unless a put that stands after it brought a version as high: that stays, and only
//	       AsOf rises
//
// It returns the state after op, to be kept even where op is not applied, and whether op is to be applied. Applying the
// op that made the state once more is allowed: that is how a dead letter is tried again, and how a batch is repeated
// after a crash.
//
// Why AsOf: deleting the newest version must bring back an older one, which a bare comparison of versions forbids; and
// a replayed insert of the deleted version must not bring that back. Why a reset yields to a later put: a replayed
// delete, or a slow second replicator's look, must not take away what was written after it. Why AsOf rises
// nevertheless: else a put of the deleted version that was held up somewhere could still come and bring it back, with
// no delete left to follow. Why of two looks at one place the higher version stays: both may have seen what came after
// that place. If it is the lower one that came later, the delete in between is still to come, and so is a look at a
// later place. A repair (Rewrite) was told to write what the source holds, deletes that nobody logged included. Why it
// doesn't yield to a lower version: with AsOf risen, the higher one that the look saw could not come any more. Why a
// put may rewrite what a look at its place found: where the source stands still, all looks and scans stand at one
// place, and a rebuild would else leave what was changed by hand since the last repair.
func (s State) Next(op Op) (State, bool) {
	if op.AsOf != 0 {
		if op.AsOf < s.AsOf || op.AsOf == s.AsOf && op.Version < s.Version && !op.Rewrite {
			return s, false
		}
		if op.AsOf < s.Order && op.Version <= s.Version {
			return State{Version: s.Version, Order: s.Order, AsOf: op.AsOf}, false
		}
		return State{Version: op.Version, Order: op.AsOf, AsOf: op.AsOf}, true
	}
	if op.Rewrite && op.Order == s.AsOf && op.Order == s.Order && op.Version == s.Version {
		return s, true
	}
	if op.Order <= s.AsOf || op.Version < s.Version || (op.Version == s.Version && op.Order < s.Order) {
		return s, false
	}
	return State{Version: op.Version, Order: op.Order, AsOf: s.AsOf}, true
}

// Forgettable reports whether a sink may remove the state, given the view's horizon. The cell is gone, and every op that
// the state could still refuse is below the horizon. A horizon is a log position that only rises. It never passes the
// view's mark, and it is durable before anything is removed by it.
func (s State) Forgettable(horizon int64) bool {
	return s.Version == NoVersion && max(s.Order, s.AsOf) < horizon
}

// Unknown reports whether a sink that has the state s of a cell can't judge op: it stands below the horizon and would be
// applied, but something that would refuse it may have been forgotten. Such an op is not applied. The engine reads the
// cell again from the source and applies what it finds, as of a log position that is not below the horizon.
//
// What is forgotten was below the horizon, so it never decides about an op at or above it. What Next refuses it also
// refuses with the forgotten state. And that a cell is gone can be judged without: where the cell was put since, that was
// above what is forgotten; where nothing is known of it, see Obsolete.
func (s State) Unknown(op Op, horizon int64) bool {
	if max(op.Order, op.AsOf) >= horizon || op.Version == NoVersion {
		return false
	}
	_, applies := s.Next(op)
	return applies
}

// Obsolete reports whether op says, from below the horizon, that a cell is gone of which the sink knows nothing. It is
// stale, and no state is kept of it: that could be older than the one that was forgotten, and let an op pass that the
// forgotten one refused.
func (s State) Obsolete(op Op, horizon int64) bool {
	return s == Unseen && op.Version == NoVersion && op.AsOf < horizon
}
