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

// State is what a sink durably remembers of a cell in a view: all that State.Next needs to decide about an op. A sink
// may remove old states of cells that are gone (Forgettable). The status of a view is something else: see
// ViewStatus.State.
type State struct {
	Version int64 // the version of the contributions applied last; NoVersion if the cell is gone or was never seen
	Order   int64 // log position of the op applied last; if versions are equal, the higher position wins
	AsOf    int64 // AsOf of the last reset; 0 if there was none
}

// Covers reports whether the state may belong to the same row that a re-read of the cell (look) found. If log positions
// are the versions, that can't be told, so the answer is always yes.
func (s State) Covers(look Op) bool { return s.Version == look.Version || look.Version == look.AsOf }

// Unseen is the state of a cell of which a sink has no state.
var Unseen = State{Version: NoVersion}

// Next decides whether op replaces what a view holds of a cell. The view ends up right even if ops are replayed,
// reordered, or sent by a second replicator as well. Next returns the new state, which the sink must keep even if it
// does not apply op, and whether to apply op.
func (s State) Next(op Op) (State, bool) {
	if op.AsOf != 0 {
		// Two resets at one position may have found different versions, because a read may include later changes. The
		// higher version stays. If its row is already deleted, the log has the delete at a later position, so another
		// reset will come. A repair (Rewrite) writes even the lower version, because the log may lack the delete.
		if op.AsOf < s.AsOf || op.AsOf == s.AsOf && op.Version < s.Version && !op.Rewrite {
			return s, false
		}
		// A replayed delete, or a second replicator's late re-read, must not remove a row that was put at a later
		// position. Only AsOf rises, so that a delayed put of a version deleted before AsOf is still refused.
		if op.AsOf < s.Order && op.Version <= s.Version {
			return State{Version: s.Version, Order: s.Order, AsOf: op.AsOf}, false
		}
		// A reset may lower the version: deleting the newest version brings back an older one.
		return State{Version: op.Version, Order: op.AsOf, AsOf: op.AsOf}, true
	}
	// A rebuild must write every row again. While the source is idle, the rebuild puts a row at the position at which
	// an earlier repair reset the row. So this put applies, although other puts at the position of a reset are stale.
	if op.Rewrite && op.Order == s.AsOf && op.Order == s.Order && op.Version == s.Version {
		return s, true
	}
	// An equal op is not refused: a retried dead letter, or a batch repeated after a crash, must be applied again.
	if op.Order <= s.AsOf || op.Version < s.Version || (op.Version == s.Version && op.Order < s.Order) {
		return s, false
	}
	return State{Version: op.Version, Order: op.Order, AsOf: s.AsOf}, true
}

// Forgettable reports whether a sink may remove the state: its cell has no row, and the state is below the horizon, a
// log position below which no op is applied without asking the source. The horizon only rises, and is durable before
// any state is removed.
func (s State) Forgettable(horizon int64) bool {
	return s.Version == NoVersion && max(s.Order, s.AsOf) < horizon
}

// Unknown reports whether op would be applied with state s, but is older than the horizon: the sink may have removed a
// newer state of the cell, which would refuse op. The sink does not apply such an op, and the engine reads the cell
// again from the source. Unknown is false for a reset to NoVersion, which Obsolete judges.
func (s State) Unknown(op Op, horizon int64) bool {
	if max(op.Order, op.AsOf) >= horizon || op.Version == NoVersion {
		return false
	}
	_, applies := s.Next(op)
	return applies
}

// Obsolete reports whether op says that a cell is gone, and is below the horizon (see Forgettable), while the sink has
// no state of the cell. Such an op is stale, and the sink stores no state for it, because a removed state may have been
// newer than op.
func (s State) Obsolete(op Op, horizon int64) bool {
	return s == Unseen && op.Version == NoVersion && op.AsOf < horizon
}
