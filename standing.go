package replicator

import (
	"maps"
	"time"
)

// Standing is a view's progress with one source. A sink keeps it together with the data (Mark), the store keeps it
// (Checkpoint), and the running program has it in memory. If the three differ, the `beginning` of package pipeline
// decides which one counts.
type Standing struct {
	Position Position `json:"position"` // everything up to this position has been applied
	// the fill's progress by table; nil once the view is filled. The scan of a table that is missing here has not begun
	Fill     map[string]Progress `json:"fill,omitzero"`
	FillFrom int64               `json:"fill_from,omitempty"` // the Order at which the fill began
	Repair   bool                `json:"repair,omitempty"`    // the fill rewrites even what the view should hold already
	Epoch    int64               `json:"epoch,omitempty"`     // the last fill's number, which only rises; 0: unknown
	// Swapped is the log position of an event after which the view must be compared with the source, such as a RENAME that
	// swapped a table for another; 0: no comparison is due
	Swapped int64 `json:"swapped,omitempty"`
}

// StoredStanding is the JSON form of a Standing in a sink.
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

const (
	PhaseFilling = "filling"
	PhaseFilled  = "filled"
)

// Stored returns the JSON form of s.
func (s Standing) Stored() StoredStanding {
	stored := StoredStanding{Order: s.Position.Order, Token: s.Position.Token, Phase: PhaseFilled,
		Fill: s.Fill, FillFrom: s.FillFrom, Repair: s.Repair, Epoch: s.Epoch, Swapped: s.Swapped}
	if s.Filling() {
		stored.Phase = PhaseFilling
	}
	return stored
}

// Standing returns the progress that a sink has stored as s.
func (s StoredStanding) Standing() Standing {
	at := Standing{Position: Position{Order: s.Order, Token: s.Token}, Epoch: s.Epoch, Swapped: s.Swapped}
	if s.Phase == PhaseFilled {
		return at
	}
	if at.Fill = s.Fill; at.Fill == nil { // the view was opened, and nothing was saved since
		at.Fill = map[string]Progress{}
	}
	at.FillFrom, at.Repair = s.FillFrom, s.Repair
	return at
}

// Progress is how far the scan of one table has come. Every row before the place After is durable in the sink.
type Progress struct {
	After string `json:"after,omitempty"` // Chunk.Next of the last applied chunk: the scan continues there
	Done  bool   `json:"done,omitempty"`
	Rows  int64  `json:"rows"`
	Total int64  `json:"total,omitempty"` // estimate, for a progress bar; 0: unknown
}

// Filling reports whether the view is still being filled.
func (s Standing) Filling() bool { return s.Fill != nil }

// Less reports whether p is behind o. Both are the progress of one table in the same fill.
func (p Progress) Less(o Progress) bool {
	if p.Done != o.Done {
		return o.Done
	}
	return p.Rows < o.Rows
}

// Raise returns the progress that a sink must keep as its mark: s is the old mark, and next was reached since. A mark
// never falls: the higher position counts, and for each table the scan that has come farther. Two replicators may even
// continue the same fill, because each of them reads all of the log since the fill began. A later fill replaces an
// earlier one, because it was started for changes that the earlier one missed.
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
	if next.Position.Order >= s.Position.Order { // next includes all of s, so the value of Swapped in next counts
		at.Position, at.Swapped = next.Position, next.Swapped
	}
	if !at.Filling() {
		at.FillFrom, at.Repair = 0, false
	}
	return at
}

// Anew returns the Standing with which `checkpoint reset` makes the view fill again from the beginning. The states of
// its cells stay, and the fill rewrites every entry in place. Position stays, so that new changes get higher log
// positions than those in the states.
func (s Standing) Anew() Standing {
	return Standing{Position: s.Position, Fill: map[string]Progress{}, Repair: true,
		Epoch: max(s.Epoch+1, time.Now().UnixMicro())}
}

// IsAnew reports whether s is still as Anew made it: the fill has not begun.
func (s Standing) IsAnew() bool {
	return !s.Position.IsZero() && s.Filling() && len(s.Fill) == 0 && s.Repair
}

// Below reports whether s, the progress that a sink has, is behind `marked`, the progress that was saved in the sink
// before. If so, the sink lost data. If s is in a later fill than `marked`, it is not behind: another replicator began
// that fill, or swapped in a rebuilt view.
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

// Least returns a view's Standing in a sink with two parts (such as shards), one at s and the other at o. The part that
// is behind counts.
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

// farther combines the progress of two replicators on one fill. It returns the greater progress of each table, or nil
// if either replicator has finished the fill.
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

// CommonFill combines two records of the progress of one fill, such as those of two shards. For each table it returns
// the lesser progress. Neither a nor b is nil.
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
