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
type shapes struct {
	mu sync.Mutex
	of map[string][]shapeFrom // by table, in the order of the log
}

// shapeFrom is a table's digest from an order on; "" where it can't be told.
type shapeFrom struct {
	order  int64
	digest string
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

// at is a table's digest at a place.
func (s *shapes) at(name string, order int64) (digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return digestAt(s.of[name], order)
}

// all are the tables' digests at a place.
func (s *shapes) all(order int64) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	digests := make(map[string]string, len(s.of))
	for name, along := range s.of {
		digests[name] = digestAt(along, order)
	}
	return digests
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
