package replicator

// NoVersion is the version of a cell that has no rows.
const NoVersion int64 = -1

// AnyVersion is the version of a Change that does not know its cell's current row. The newest row must be read from the
// source.
const AnyVersion int64 = 1<<63 - 1

// Op is one operation on a cell: replace its old contributions by Values, if those are newer. There are two kinds:
//
//	put    A row was inserted, updated, or read by a scan. Version is the row's, Order its log position. AsOf is 0.
//	reset  The cell's current row is known, from a re-read (after a delete, or for a repair) or because its only row
//	       was deleted. Version is that of the newest remaining row, NoVersion if none remains. AsOf is the log
//	       position up to which this includes every change. Order is not used.
type Op struct {
	Cell    Cell
	Version int64
	Order   int64
	AsOf    int64
	Values  []Value // one for each of the target's views that the cell feeds

	// Rewrite: the values are written even if the target should hold them already. This repairs a target that was
	// changed by hand.
	Rewrite bool
}

// State is what a sink durably remembers of a cell in a view. Only the state decides about an op (Next). A sink may
// remove the state once the cell is gone and lies below the view's horizon (Forgettable). If an op can't be judged
// without it, the cell is read again from the source (Unknown). The status of a view is something else: see
// ViewStatus.State.
type State struct {
	Version int64 // of the contributions applied last; NoVersion if the cell is gone or was never seen
	Order   int64 // log position of the op applied last: of two rows with one version, the later one counts
	AsOf    int64 // log position of the last reset, which knew every change up to it; 0 if there was none
}

// Covers reports whether the state may belong to the same row that a re-read found. Where log positions serve as
// versions, each re-read has another version, so nothing can be told.
func (s State) Covers(look Op) bool { return s.Version == look.Version || look.Version == look.AsOf }

// Unseen is the state of a cell that a sink knows nothing of.
var Unseen = State{Version: NoVersion}

// Next is the rule that keeps a view right whatever is replayed, reordered or sent by a second replicator:
//
//	put    It is ignored at or before the position of the last reset. Otherwise it is applied if its row is not older
//	       than the current one. Exception: a rewrite at the reset's own position, of the version that the reset
//	       found, is applied.
//	reset  It is ignored before the position of the last reset, or at that position with a lower version. Otherwise
//	       it replaces the state, whatever its version. Exception: a put after the reset's position, with a version
//	       at least as high, stays, and only AsOf rises.
//
// It returns the state after op, which must be kept even if op is not applied, and whether to apply op. The op that
// made the state may be applied again. That is how a dead letter is retried, and how a batch is repeated after a crash.
//
// Why AsOf exists: deleting the newest version must bring back an older one, which comparing versions would forbid. And
// a replayed insert of the deleted version must not bring that one back.
//
// Why a reset yields to a later put: a replayed delete, or the re-read of a slow second replicator, must not remove
// what was written after it. AsOf still rises. Otherwise a delayed put of the deleted version could arrive and stay,
// with no delete left to follow. A reset does not yield to a put of a lower version: with AsOf raised, the higher
// version that it found could never arrive.
//
// Why the higher version wins between two re-reads at one position: both may have seen changes after that position. If
// the lower version is the newer one, the delete in between is still to come, and its re-read is at a later position. A
// repair (Rewrite) is exempt: it was told to write what the source holds, including deletes that were never logged.
//
// Why a put may rewrite what a reset at its position found: while the source is idle, all re-reads and scans have one
// position. Without the exception, a rebuild would skip everything that an earlier repair had fixed there.
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

// Forgettable reports whether a sink may remove the state, given the view's horizon. The cell is gone, and every op
// that the state could still refuse is below the horizon. A horizon is a log position that only rises. It never passes
// the view's mark, and it is durable before anything is removed by it.
func (s State) Forgettable(horizon int64) bool {
	return s.Version == NoVersion && max(s.Order, s.AsOf) < horizon
}

// Unknown reports whether a sink with state s can't judge op. The op is below the horizon and would be applied, but a
// state that would refuse it may have been forgotten. Such an op is not applied. The engine reads the cell again from
// the source and applies the result at a log position that is not below the horizon.
//
// Forgotten states were below the horizon, so they never decide about an op at or above it. An op that Next refuses
// would also be refused with the forgotten state. A reset to NoVersion needs no forgotten state: if the cell was put
// since, that was above everything forgotten; if the sink knows nothing of the cell, see Obsolete.
func (s State) Unknown(op Op, horizon int64) bool {
	if max(op.Order, op.AsOf) >= horizon || op.Version == NoVersion {
		return false
	}
	_, applies := s.Next(op)
	return applies
}

// Obsolete reports whether op says that a cell is gone, from below the horizon, and the sink knows nothing of the cell.
// The op is stale, and no state is kept of it. Such a state could be older than the forgotten one, and let an op pass
// that the forgotten one refused.
func (s State) Obsolete(op Op, horizon int64) bool {
	return s == Unseen && op.Version == NoVersion && op.AsOf < horizon
}
