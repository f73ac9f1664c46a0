package replicator

// NoVersion is the version of a cell that has no rows.
const NoVersion int64 = -1

// AnyVersion is the version of a Change that lacks the cell's new row. The row must be read from the source.
const AnyVersion int64 = 1<<63 - 1

// Op is one operation on a cell: replace its old contributions by Values, if Values are newer. There are two kinds:
//
//	put    A row was inserted, updated, or read by a scan. Version is the row's, Order its log position. AsOf is 0.
//	reset  The newest row of the cell is known for certain: the source was asked (after a delete, or for a repair), or
//	       its only row was deleted. Version is that of the newest remaining row, NoVersion if none remains. AsOf is
//	       a log position: every change up to it is included. Order is not used.
type Op struct {
	Cell    Cell
	Version int64
	Order   int64
	AsOf    int64
	Values  []Value // one value for each of the target's views that the cell feeds

	// Rewrite: the values are written even if the target should hold them already, to repair a target that was changed by
	// hand.
	Rewrite bool
}

// State is what a sink durably remembers of a cell in a view. State.Next needs nothing else to decide about an op. A
// sink may remove the state of a cell that is gone, once it is old enough (Forgettable). If an op can't be judged
// without the removed state, the cell is read again from the source (Unknown). The status of a view is something else:
// see ViewStatus.State.
type State struct {
	Version int64 // the version of the contributions applied last; NoVersion if the cell is gone or was never seen
	Order   int64 // log position of the op applied last; if versions are equal, the higher position wins
	AsOf    int64 // AsOf of the last reset; 0 if there was none
}

// Covers reports whether the state may belong to the same row that look, a re-read of the cell, found. If log positions
// are the versions, two re-reads of one row have different versions, so the answer is always yes.
func (s State) Covers(look Op) bool { return s.Version == look.Version || look.Version == look.AsOf }

// Unseen is the state of a cell of which a sink has no state.
var Unseen = State{Version: NoVersion}

// Next decides whether op replaces what a view holds of a cell. The view ends up right even if ops are replayed,
// reordered, or sent by a second replicator as well:
//
//	put    It is ignored at or before the position of the last reset. Otherwise it is applied if its row is not older
//	       than the current one. Exception: a rewrite at the reset's own position, of the version that the reset
//	       found, is applied.
//	reset  It is ignored before the position of the last reset, or at that position with a lower version. Otherwise
//	       it replaces the state, whatever its version. Exception: a put after the reset's position, with a version
//	       at least as high, stays, and only AsOf rises.
//
// It returns the new state and whether to apply op. The sink must keep the new state even if it does not apply op. The
// op that made the state may be applied again: a retried dead letter, or a batch repeated after a crash, needs that.
//
// Why AsOf exists: deleting the newest version must bring back an older one, although its version is lower. And a
// replayed insert of the deleted version must not bring that version back.
//
// Why a reset yields to a later put: a replayed delete, or the re-read of a slow second replicator, must not remove
// what was written after it. AsOf still rises. Otherwise a delayed put of the deleted version could arrive and stay,
// with no delete left to follow. A reset does not yield to a put of a lower version: with AsOf raised, the higher
// version that it found could never arrive.
//
// Why the higher version wins between two re-reads at one position: both may have seen changes after that position. If
// the row with the lower version is the newer one, the other row was deleted in between. That delete has yet to arrive,
// and its re-read will have a later position. A repair (Rewrite) is exempt: it must write what the source holds, even
// after deletes that were never logged.
//
// Why a put may rewrite what a reset at its position found: while the source is idle, all re-reads and scans have the
// same position. Without the exception, a rebuild would skip everything that an earlier repair had fixed at that
// position.
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

// Forgettable reports whether a sink may remove the state: its cell is gone, and every op that the state could still
// refuse is below the view's horizon. The horizon is a log position that only rises. It never passes the view's mark,
// and it is durable before any state is removed.
func (s State) Forgettable(horizon int64) bool {
	return s.Version == NoVersion && max(s.Order, s.AsOf) < horizon
}

// Unknown reports whether a sink with state s can't judge op: s lets it pass, but op is below the horizon, and a
// removed state might have refused it. The sink does not apply such an op. The engine reads the cell again from the
// source, and applies the result at a log position at or above the horizon.
//
// Removed states were below the horizon, so they never decide about an op at or above it. An op that Next refuses would
// also be refused with the removed state. A reset to NoVersion is never Unknown. If the cell was put since a state was
// removed, that put was above all removed states. If the sink has no state of the cell, Obsolete decides.
func (s State) Unknown(op Op, horizon int64) bool {
	if max(op.Order, op.AsOf) >= horizon || op.Version == NoVersion {
		return false
	}
	_, applies := s.Next(op)
	return applies
}

// Obsolete reports whether op is a reset below the horizon that says that a cell is gone, while the sink has no state
// of the cell. Such an op is stale, and the sink stores no state for it. A removed state may have been newer than op,
// and would have refused ops that a state made from op lets pass.
func (s State) Obsolete(op Op, horizon int64) bool {
	return s == Unseen && op.Version == NoVersion && op.AsOf < horizon
}
