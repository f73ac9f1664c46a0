package replicator

import (
	"maps"
	"time"
)

// Standing is how far a view has come with one source. It is kept in three places: in the sink, beside the data (Mark),
// in the store (Checkpoint) and in memory. Where they differ, beginning says which of them counts.
type Standing struct {
	Position Position `json:"position"` // everything up to it has been applied
	// by table; nil once the view is filled. A table that it lacks has not been begun
	Fill     map[string]Progress `json:"fill,omitzero"`
	FillFrom int64               `json:"fill_from,omitempty"` // the order at which the fill began
	Repair   bool                `json:"repair,omitempty"`    // the fill rewrites what the view is believed to hold
	Epoch    int64               `json:"epoch,omitempty"`     // of the last fill, a later one has a higher; 0: not known
	// where another table took the place of one that it reads, and it was not compared since
	Swapped int64 `json:"swapped,omitempty"`
}

// StoredStanding is the form in which a sink keeps a Standing as JSON.
type StoredStanding struct {
	Order int64  `json:"order"`
	Token string `json:"token"`
	Phase string `json:"phase"`

	Fill     map[string]Progress `json:"fill,omitzero"`
	FillFrom int64               `json:"fill_from,omitempty"`
	Repair   bool                `json:"repair,omitempty"`
	Epoch    int64               `json:"epoch,omitempty"`
	Swapped  int64               `json:"swapped,omitempty"`
}

// What the phase of a StoredStanding may be.
const (
	PhaseFilling = "filling"
	PhaseFilled  = "filled"
)

// Stored is the form in which a sink keeps s as JSON.
func (s Standing) Stored() StoredStanding {
	stored := StoredStanding{Order: s.Position.Order, Token: s.Position.Token, Phase: PhaseFilled,
		Fill: s.Fill, FillFrom: s.FillFrom, Repair: s.Repair, Epoch: s.Epoch, Swapped: s.Swapped}
	if s.Filling() {
		stored.Phase = PhaseFilling
	}
	return stored
}

// Standing is what was stored.
func (s StoredStanding) Standing() Standing {
	at := Standing{Position: Position{Order: s.Order, Token: s.Token}, Epoch: s.Epoch, Swapped: s.Swapped}
	if s.Phase == PhaseFilled {
		return at
	}
	if at.Fill = s.Fill; at.Fill == nil { // it was opened and never marked
		at.Fill = map[string]Progress{}
	}
	at.FillFrom, at.Repair = s.FillFrom, s.Repair
	return at
}

// Progress is how far the scan of one table has come. All before After is durable in the sink.
type Progress struct {
	After string `json:"after,omitempty"` // a Chunk's Next
	Done  bool   `json:"done,omitempty"`
	Rows  int64  `json:"rows"`
	Total int64  `json:"total,omitempty"` // estimate, for a progress bar; 0 if unknown
}

// Filling reports whether the view is still being filled.
func (s Standing) Filling() bool { return s.Fill != nil }

// Less reports whether a scan has come less far than another one of the same fill.
func (p Progress) Less(o Progress) bool {
	if p.Done != o.Done {
		return o.Done
	}
	return p.Rows < o.Rows
}

// Raise is what a sink remembers of a view where s stood and next is marked. It never falls: the higher position
// counts, and of one fill the farther progress of each table; filled is the farthest. That holds whoever marks: two
// replicators that go on with one fill both read what follows its beginning. A later fill takes an earlier one's place,
// and what an earlier one comes to says nothing of a later one: somebody began that because of what the earlier one had
// not seen.
func (s Standing) Raise(next Standing) Standing {
	if s.Position.IsZero() {
		return next
	}
	if next.Epoch < s.Epoch && (s.Filling() || next.Filling()) {
		return s
	}
	at := s
	if next.Epoch > s.Epoch {
		at = next
	} else if next.Epoch == s.Epoch {
		at.Fill = farther(s.Fill, next.Fill)
	}
	at.Position, at.Swapped = s.Position, s.Swapped
	if next.Position.Order >= s.Position.Order { // whoever has read as far knows what is to be compared
		at.Position, at.Swapped = next.Position, next.Swapped
	}
	if !at.Filling() {
		at.FillFrom, at.Repair = 0, false
	}
	return at
}

// Anew is the standing of a view that is to begin anew, as a new one does, while its cells' states stay: the fill
// rewrites all of it in place. The position only says above what Orders go on.
func (s Standing) Anew() Standing {
	return Standing{Position: s.Position, Fill: map[string]Progress{}, Repair: true,
		Epoch: max(s.Epoch+1, time.Now().UnixMicro())}
}

// IsAnew reports whether s is what Anew made of another one.
func (s Standing) IsAnew() bool {
	return !s.Position.IsZero() && s.Filling() && len(s.Fill) == 0 && s.Repair
}

// Below reports whether s, which a sink says of a view, is less than what was marked there: the sink lost data. A later
// fill is not less, wherever it stands: another replicator began it, or swapped in what it had filled.
func (s Standing) Below(marked Standing) bool {
	switch {
	case s.Epoch != marked.Epoch:
		return s.Epoch < marked.Epoch
	case s.Position.Order < marked.Position.Order:
		return true
	case !s.Filling() || !marked.Filling():
		return s.Filling() && !marked.Filling()
	}
	for table, p := range marked.Fill {
		if s.Fill[table].Less(p) {
			return true
		}
	}
	return false
}

// Least is where a view stands of which one part of a sink says s and another o: where the one stands that is less far.
func (s Standing) Least(o Standing) Standing {
	least := s
	if o.Epoch < s.Epoch {
		least = o
	}
	least.Position, least.Swapped = s.Position.Lower(o.Position), max(s.Swapped, o.Swapped)
	switch {
	case s.Epoch != o.Epoch:
	case !s.Filling():
		least.Fill, least.FillFrom, least.Repair = o.Fill, o.FillFrom, o.Repair
	case o.Filling():
		least.Fill = CommonFill(s.Fill, o.Fill)
	}
	return least
}

// farther is the progress of two that fill the same together; nil if one of them has filled it.
func farther(a, b map[string]Progress) map[string]Progress {
	if a == nil || b == nil {
		return nil
	}
	both := maps.Clone(a)
	for table, p := range b {
		if have, ok := both[table]; !ok || have.Less(p) {
			both[table] = p
		}
	}
	return both
}

// CommonFill is the progress that both of two fills have made; neither is nil.
func CommonFill(a, b map[string]Progress) map[string]Progress {
	both := map[string]Progress{}
	for _, fill := range []map[string]Progress{a, b} {
		for table := range fill {
			both[table] = a[table]
			if b[table].Less(a[table]) {
				both[table] = b[table]
			}
		}
	}
	return both
}
