package canal

import (
	"slices"
	"sync"
)

// maxHistory bounds the transaction ends that are remembered for Reader.Position. When there are more, neighbours are merged:
// a position is then an earlier transaction end than it might be, never a later one.
const maxHistory = 4096

// history remembers transaction ends that were read and not yet asked for. Adding one makes no strings: sources of GTIDs
// are numbers into names, and a set is only written out when a position is asked for.
type history struct {
	mu    sync.Mutex
	at    end      // the latest end that was asked for: where base is right
	base  *gtidSet // all transactions up to at
	gtids bool     // base is known
	ends  []end    // after at, ascending
	names []sid
	ids   map[sid]int32
}

// sid is a source of transactions: "uuid[:tag]", or MariaDB's domain and server.
type sid struct{ name, server string }

// end is a transaction's end, or another place between two transactions.
type end struct {
	file  fileName
	pos   int64
	born  uint32
	order int64

	last gtidRun   // the transaction that ends here
	more []gtidRun // those of merged ends before it
}

// gtidRun is a run of transactions of one source; empty if last is 0.
type gtidRun struct {
	sid         int32
	first, last int64
}

func newHistory(start end, base *gtidSet) *history {
	return &history{at: start, base: base, gtids: base != nil, ids: map[sid]int32{}}
}

// id gives the number of a source of transactions.
func (h *history) id(s sid) int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.ids[s]
	if !ok {
		id = int32(len(h.names))
		h.names = append(h.names, s)
		h.ids[s] = id
	}
	return id
}

// know sets the transactions before the earliest place, when reading found them out.
func (h *history) know(at end, base *gtidSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.base, h.gtids = at, base, true
}

// add remembers an end.
func (h *history) add(e end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.ends); n > 0 && h.ends[n-1].order >= e.order { // a heartbeat's place again
		return
	}
	if e.order <= h.at.order {
		return
	}
	if len(h.ends) >= maxHistory {
		h.merge()
	}
	h.ends = append(h.ends, e)
}

// merge joins ends by twos, so that half remain.
func (h *history) merge() {
	kept := h.ends[:0]
	for i := 0; i+1 < len(h.ends); i += 2 {
		a, b := h.ends[i], h.ends[i+1]
		b.more = joinRuns(append(append(a.more, a.last), b.more...))
		kept = append(kept, b)
	}
	if len(h.ends)%2 == 1 {
		kept = append(kept, h.ends[len(h.ends)-1])
	}
	clear(h.ends[len(kept):])
	h.ends = kept
}

// joinRuns sorts runs and joins those that touch.
func joinRuns(runs []gtidRun) []gtidRun {
	slices.SortFunc(runs, func(a, b gtidRun) int {
		if a.sid != b.sid {
			return int(a.sid - b.sid)
		}
		return int(min(max(a.first-b.first, -1), 1))
	})
	out := runs[:0]
	for _, r := range runs {
		if r.last == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].sid == r.sid && r.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, r.last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// upTo forgets all ends up to order and returns the latest of them with the transactions before it; its set is nil where
// they are not known.
func (h *history) upTo(order int64) (end, *gtidSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.ends) && h.ends[n].order <= order {
		e := h.ends[n]
		for _, r := range e.more {
			h.apply(r)
		}
		h.apply(e.last)
		e.more, e.last = nil, gtidRun{}
		h.at = e
		n++
	}
	if n > 0 {
		h.ends = slices.Delete(h.ends, 0, n)
	}
	if !h.gtids {
		return h.at, nil
	}
	return h.at, h.base
}

func (h *history) apply(r gtidRun) {
	if r.last == 0 || !h.gtids {
		return
	}
	s := h.names[r.sid]
	if h.base.flavor == mariaFlavor {
		// The last one read in a domain is its place: a domain may step back when gtid_strict_mode is off, and then GTIDs can't
		// tell what was read. The higher number is what FILE:POS is proved with on the next start.
		if runs := h.base.runs[s.name]; len(runs) == 0 || runs[0].last < r.last {
			h.base.addMaria(s.name, s.server, r.last)
		}
		return
	}
	h.base.add(s.name, span{r.first, r.last})
}
