package canal

import (
	"fmt"
	"math"
	"sync"

	"replicator"
)

// shapes are the digests of the watched tables' columns along the binlog: rows whose columns it doesn't name can be
// read only where the table's are known to have been those that it has now. What a table is now is read beside the
// log, and may be what an ALTER made of it that reading has yet to come to. It holds for certain behind the log's end
// at that time, unless another ALTER is met before.
//
// Whether the server names columns now says nothing of what it wrote before. So each position has the digests.
//
// Where an ALTER seems to have made nothing of the columns, and reading is behind, a later one may have undone it: the
// rows in between are then read by columns that they don't have. That shows when the later one is met, and ends reading
// there (doubt). Nearly all such ALTERs are alone, and reading goes on behind them. Positions have the doubts, so that
// a restart between the two forgets nothing.
type shapes struct {
	mu     sync.Mutex
	of     map[string][]shapeFrom // by table, in the order of the log
	doubts map[string][]doubt     // likewise
}

// shapeFrom is a table's digest from an order on; "" where it can't be told.
type shapeFrom struct {
	order  int64
	digest string
}

// doubt is a span in which a table is what it was read to be at the span's end, unless an ALTER of its columns is met
// in it: what the table was before that is then not known.
type doubt struct {
	From  int64 `json:"from"`           // behind an ALTER of the columns, or where reading began and nothing was known
	Until int64 `json:"until"`          // the log's end when the table was looked at
	Read  bool  `json:"read,omitempty"` // rows without names were read in it
}

// in is the doubt of a position for a reader that begins at it, and looked at the table when the log ended at end.
// Places of another epoch mean nothing in this one's log: there the doubt lasts until that end.
func (d doubt) in(p place, end int64) doubt {
	if epoch, _, _ := splitOrder(d.Until); epoch != p.epoch {
		d.From, d.Until = p.order(), end
	}
	return d
}

// opened notes what a table is now, and what it was at the position; "" stands there for what can't be told. Positions
// of older versions have no digest where the server named columns, and those of a log's end never do: it is then taken
// to have been what it is.
func (s *shapes) opened(name string, was *string, now string, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string][]shapeFrom{}
	}
	if was == nil || *was == now {
		s.of[name] = []shapeFrom{{math.MinInt64, now}}
		return
	}
	s.of[name] = []shapeFrom{{math.MinInt64, *was}, {end, now}}
}

// altered notes an ALTER, and what the table was a moment before the log had its end.
func (s *shapes) altered(name string, at int64, now string, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.of[name]
	for n := len(before); n > 0 && before[n-1].order > at; n-- {
		before = before[:n-1]
	}
	s.of[name] = append(before, shapeFrom{at, ""}, shapeFrom{end, now})
}

// doubted notes a doubt. Others that begin behind it were of an earlier reading.
func (s *shapes) doubted(name string, d doubt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubts == nil {
		s.doubts = map[string][]doubt{}
	}
	before := s.doubts[name]
	for n := len(before); n > 0 && before[n-1].From >= d.From; n-- {
		before = before[:n-1]
	}
	s.doubts[name] = append(before, d)
}

// readBy notes that rows without names, at a place, are read by what the table is taken to be there.
func (s *shapes) readBy(name string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := doubtAt(s.doubts[name], at); d != nil {
		d.Read = true
	}
}

// misread reports whether rows before an ALTER of the columns were read by columns that they may not have. The doubt
// that begins with the ALTER itself, where it is read again, says nothing of them.
func (s *shapes) misread(name string, at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := doubtAt(s.doubts[name], at-1)
	return d != nil && d.Read
}

// doubtAt is the doubt that a place is in; nil: there is none.
func doubtAt(along []doubt, order int64) (in *doubt) {
	for i := range along {
		if along[i].From <= order {
			in = &along[i]
		}
	}
	if in != nil && in.Until <= order {
		return nil
	}
	return in
}

// at is a table's digest at a place.
func (s *shapes) at(name string, order int64) (digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return digestAt(s.of[name], order)
}

// all are the tables' digests at a place, and the doubts that it is in.
func (s *shapes) all(order int64) (digests map[string]string, doubts map[string]doubt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digests, doubts = make(map[string]string, len(s.of)), map[string]doubt{}
	for name, along := range s.of {
		digests[name] = digestAt(along, order)
		if d := doubtAt(s.doubts[name], order); d != nil {
			doubts[name] = *d
		}
	}
	return digests, doubts
}

func digestAt(along []shapeFrom, order int64) (digest string) {
	for _, x := range along {
		if x.order <= order {
			digest = x.digest
		}
	}
	return digest
}

// errUnnamed: a table was altered, and rows are, or may come, that can't be read by what it is now. Others can be.
func errUnnamed(table, when, rows string) error {
	return replicator.OfTable(table, replicator.Fatal(fmt.Errorf("table %s was altered%s, and the binlog doesn't name "+
		"columns: which columns the rows %s have can't be told. Set binlog_row_metadata=FULL on the source, then "+
		"`replicator checkpoint reset VIEW…` for its views", table, when, rows)))
}
