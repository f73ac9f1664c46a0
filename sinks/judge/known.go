package judge

import (
	"encoding/binary"
	"math"

	"replicator"
	"replicator/internal/wire"
)

// Known is what a sink knows of a cell (the rows of one key) in one view.
type Known struct {
	State replicator.State
	Shown bool // the view has a contribution of the cell
	Dead  bool // the cell contributes nothing because it is a dead letter
	Waits bool // the cell is a dead letter because the view shows another source's row: see Batch.Claim

	// Horizon is a log position below which the sink may have removed the view's states of deleted cells. The sink reads
	// it after State: otherwise State could be removed in between, unnoticed.
	Horizon int64
}

// Forgettable reports whether the sink may remove the state, given the log position below which it removes states. It
// keeps the state of a cell that contributes something, or is a dead letter.
func (k Known) Forgettable(horizon int64) bool {
	return !k.Shown && !k.Dead && !k.Waits && k.State.Forgettable(horizon)
}

// Unseen is what a sink knows of a cell that it never saw.
var Unseen = Known{State: replicator.Unseen}

// Outdated reports whether the view still has the cell (it shows the cell, or has a version of it), and the last op
// applied to the cell is older than the given log position: see Target.Outdated.
func (k Known) Outdated(before int64) bool {
	return (k.Shown || k.State.Version != replicator.NoVersion) && max(k.State.Order, k.State.AsOf) < before
}

// Beyond reports whether the state comes from a later log position than `look`, the op of a re-read of the cell. If the
// state is also beyond a re-read that began after the state was read, the log has no such position: the state was
// changed by hand, and would make the view ignore all changes of the cell.
func (k Known) Beyond(look replicator.Op) bool {
	return look.AsOf != 0 && max(k.State.Order, k.State.AsOf) > look.AsOf
}

// Refused reports whether the target refused the row in `look`, the op of a re-read of the cell. Either the sink
// recorded a dead letter, or its state has the row's version and the view shows nothing. The second case covers
// refusals that earlier releases did not record.
func (k Known) Refused(look replicator.Op) bool {
	return !k.Shown && (k.Dead && k.State.Covers(look) || k.State.Version == look.Version)
}

// AppendState appends a state: version + 1, order and as-of, as varints.
func AppendState(b []byte, s replicator.State) []byte {
	b = binary.AppendUvarint(b, uint64(s.Version)+1)
	b = binary.AppendUvarint(b, uint64(s.Order))
	return binary.AppendUvarint(b, uint64(s.AsOf))
}

// ReadState reads a state that AppendState appended. If the data is not such a state, r.Bad reports true from then on.
func ReadState(r *wire.Reader) replicator.State {
	version, order, asOf := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if version > math.MaxInt64+1 || order > math.MaxInt64 || asOf > math.MaxInt64 {
		r.Fail()
		return replicator.State{}
	}
	return replicator.State{Version: int64(version - 1), Order: int64(order), AsOf: int64(asOf)}
}

// Versions has, for each of a list of cells, the lowest and highest version in the views that were added so far. See
// Target.Versions.
type Versions []replicator.Span

// notAsked is the Span of a cell before Add: the first version that is added becomes both ends.
var notAsked = replicator.Span{Lowest: math.MaxInt64, Highest: math.MinInt64}

// NewVersions returns the Versions of n cells, without any version yet.
func NewVersions(n int) Versions {
	v := make(Versions, n)
	for i := range v {
		v[i] = notAsked
	}
	return v
}

// Add includes the version that one more view has of a cell.
func (v Versions) Add(cell int, version int64) {
	v[cell] = replicator.Span{Lowest: min(v[cell].Lowest, version), Highest: max(v[cell].Highest, version)}
}

// Join extends each cell's span by the versions that the same cell has in other views (`elsewhere`).
func (v Versions) Join(elsewhere Versions) {
	for i, s := range elsewhere {
		v[i] = replicator.Span{Lowest: min(v[i].Lowest, s.Lowest), Highest: max(v[i].Highest, s.Highest)}
	}
}

// Spans returns each cell's lowest and highest version. For a cell of which no version was added, both are NoVersion.
func (v Versions) Spans() []replicator.Span {
	for i := range v {
		if v[i] == notAsked {
			v[i] = replicator.Span{Lowest: replicator.NoVersion, Highest: replicator.NoVersion}
		}
	}
	return v
}
