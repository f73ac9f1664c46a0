package judge

import (
	"encoding/binary"
	"math"

	"replicator"
	"replicator/internal/wire"
)

// Known is what a sink knows of a cell in a view.
type Known struct {
	State replicator.State
	Shown bool // the cell contributes something
	Dead  bool // it contributes nothing because it is a dead letter
	Waits bool // it is one because another source's cell is shown: see Batch.Claim

	// Horizon is the view's, read not before the state was: what was below it may have been forgotten.
	Horizon int64
}

// Forgettable reports whether the sink may remove what it knows, given the view's horizon. That of a cell which
// contributes something, or is a dead letter, is kept.
func (k Known) Forgettable(horizon int64) bool {
	return !k.Shown && !k.Dead && !k.Waits && k.State.Forgettable(horizon)
}

// Unseen is what a sink knows of a cell that it never saw.
var Unseen = Known{State: replicator.Unseen}

// Outdated reports whether the view shows the cell, or knows a version of it, although nothing at or past an order was
// applied to it: see Target.Outdated.
func (k Known) Outdated(before int64) bool {
	return (k.Shown || k.State.Version != replicator.NoVersion) && max(k.State.Order, k.State.AsOf) < before
}

// Beyond reports whether the state is of a place that the look had not come to: mostly because something was applied
// since. Where a second look, begun after the first one's state was read, finds it still, it is of no place there is:
// somebody changed what the sink remembers, and would not be shown what changes from now on.
func (k Known) Beyond(look replicator.Op) bool {
	return look.AsOf != 0 && max(k.State.Order, k.State.AsOf) > look.AsOf
}

// Refused reports whether the target refused what a look finds, which is something: so the sink says, or would have
// said if it had noted such things then.
func (k Known) Refused(look replicator.Op) bool {
	return !k.Shown && (k.Dead && k.State.Covers(look) || k.State.Version == look.Version)
}

// AppendState appends a state: version + 1, order and as-of, as varints.
func AppendState(b []byte, s replicator.State) []byte {
	b = binary.AppendUvarint(b, uint64(s.Version)+1)
	b = binary.AppendUvarint(b, uint64(s.Order))
	return binary.AppendUvarint(b, uint64(s.AsOf))
}

// ReadState reads what AppendState appended. The reader is bad if that is no state.
func ReadState(r *wire.Reader) replicator.State {
	version, order, asOf := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if version > math.MaxInt64+1 || order > math.MaxInt64 || asOf > math.MaxInt64 {
		r.Fail()
		return replicator.State{}
	}
	return replicator.State{Version: int64(version - 1), Order: int64(order), AsOf: int64(asOf)}
}

// Versions are those that cells stand at in the views that they feed. See Target.Versions.
type Versions []replicator.Span

// notAsked is of a cell of which no view was asked yet.
var notAsked = replicator.Span{Lowest: math.MaxInt64, Highest: math.MinInt64}

// NewVersions begins with n cells of which no view was asked yet.
func NewVersions(n int) Versions {
	v := make(Versions, n)
	for i := range v {
		v[i] = notAsked
	}
	return v
}

// Add notes the version of a cell in one more view.
func (v Versions) Add(cell int, version int64) {
	v[cell] = replicator.Span{Lowest: min(v[cell].Lowest, version), Highest: max(v[cell].Highest, version)}
}

// Join notes the versions of the same cells in views elsewhere, of which some may not have been asked about some cells.
func (v Versions) Join(elsewhere Versions) {
	for i, s := range elsewhere {
		v[i] = replicator.Span{Lowest: min(v[i].Lowest, s.Lowest), Highest: max(v[i].Highest, s.Highest)}
	}
}

// Spans returns them, NoVersion for a cell that no view was asked about.
func (v Versions) Spans() []replicator.Span {
	for i := range v {
		if v[i] == notAsked {
			v[i] = replicator.Span{Lowest: replicator.NoVersion, Highest: replicator.NoVersion}
		}
	}
	return v
}
