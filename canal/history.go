package canal

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"replicator/canal/gtid"
)

// maxHistory limits the ends of transactions that are kept for Reader.Position. If there are more, every second one is
// dropped (merge). Reader.Position may then return an earlier end than without the limit, but never a later one.
const maxHistory = 4096

// history keeps the ends of the transactions that were read, until Reader.Position is asked for a position at or after
// them. A GTID set is built only then, so recording an end builds no strings.
type history struct {
	mu    sync.Mutex
	at    end       // what Reader.Position returned last; at first, the start
	base  *gtid.Set // all transactions up to `at`
	gtids bool      // the server uses GTIDs, so base is known
	maria bool
	ends  []end // the ends of the transactions read after `at`, ascending
	// the position after the last delivered rows; used only until their transaction ends
	open end
	seen end // the start of the binlog file that was the newest when a query last read rows
	// all transactions that the server had executed when a query last read rows; nil once a position includes them
	queried *gtid.Set
	names   []sid
	ids     map[sid]int32

	highest   *gtid.Set   // MariaDB: the highest number in each domain, and the server that wrote it, without `peak`
	peak      gtidRun     // MariaDB: the latest transactions, if they are above `highest`; kept apart to save time
	forked    atomic.Bool // two MariaDB servers numbered transactions independently
	anonymous bool        // the transaction that was read last, perhaps only in part, has no GTID
}

// sid identifies the origin of transactions: "uuid[:tag]", or MariaDB's domain and server.
type sid struct{ name, server string }

// end is the end of a transaction, or another position between two transactions.
type end struct {
	file  fileName
	pos   int64
	born  uint32
	event event // the event that ends at pos
	order int64

	anonymous bool

	// The transaction that ends at `pos`. If several ends were merged into this one, `last` is the last sequence of
	// consecutive transactions before `pos`, and `more` has the other sequences since the previous end.
	last gtidRun
	more []gtidRun
}

func (e end) placed() placed {
	return placed{File: e.file.name, Pos: e.pos, Born: e.born, Event: e.event}
}

// gtidRun is a sequence of consecutive transactions of one origin; empty if last is 0.
type gtidRun struct {
	sid         int32
	first, last int64
}

func newHistory(f gtid.Flavor, start end, base *gtid.Set) *history {
	h := &history{at: start, base: base, gtids: base != nil, maria: f == gtid.MariaDB, ids: map[sid]int32{},
		highest: gtid.New(f)}
	if base != nil {
		h.highest = base.Clone()
	}
	return h
}

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

// know sets the position where reading begins, and the transactions before it (nil: unchanged).
func (h *history) know(at end, base *gtid.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = at
	if base != nil {
		h.base, h.gtids, h.highest, h.peak = base, true, base.Clone(), gtidRun{}
	}
}

func (h *history) add(e end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.ends); n > 0 && h.ends[n-1].order >= e.order { // a heartbeat repeats a known position
		return
	}
	if e.order <= h.at.order {
		return
	}
	h.judge(e.last)
	if len(h.ends) >= maxHistory {
		h.merge()
	}
	h.ends = append(h.ends, e)
	h.anonymous = e.anonymous || h.anonymous && e.last.last == 0
}

// judge compares the number of a MariaDB transaction with the domain's highest number so far. If it is not above that
// number, and another server wrote that number, two servers have numbered independently (token.Forked). judge must run
// for each transaction that is read, because merge keeps only the last one of each domain.
func (h *history) judge(r gtidRun) {
	if !h.maria || r.last == 0 {
		return
	}
	if h.peak.last != 0 {
		if h.peak.sid == r.sid && h.peak.last < r.last {
			h.peak.last = r.last
			return
		}
		s := h.names[h.peak.sid]
		h.highest.AddMaria(s.name, s.server, h.peak.last)
		h.peak = gtidRun{}
	}
	s := h.names[r.sid]
	switch have := h.highest.Runs[s.name]; {
	case len(have) == 0 || have[0].Last < r.last:
		h.peak = r
	case h.highest.Servers[s.name] != s.server:
		h.forked.Store(true)
	}
}

// handOut records that rows of an unfinished transaction are delivered.
func (h *history) handOut(e end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = e
	h.anonymous = h.anonymous || e.anonymous
}

// see records how far the log was when a query read rows, because sinks may get the rows before the reader gets there.
// further is the start of the newest binlog file, or zero if the history reaches that file already. executed has all
// transactions that the server had executed (nil: unknown).
func (h *history) see(further end, executed *gtid.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if further.order > h.seen.order {
		h.seen = further
	}
	h.queried = joined(h.queried, executed)
}

// shownByQueries returns all transactions that the server had executed when a query last read rows. It returns nil if
// the set `before` includes all of them.
func (h *history) shownByQueries(before *gtid.Set) *gtid.Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !notAllIn(h.queried, before) {
		h.queried = nil
	}
	return h.queried
}

func (h *history) file() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.at.file.number, h.open.file.number, h.seen.file.number)
}

// reached returns the latest log position from which changes were delivered, or shown by a query (see). `further` has
// the transactions that were read after the position that Reader.Position returned last. `anonymous` says that the
// transaction that was read last has no GTID.
func (h *history) reached() (at end, further *gtid.Set, anonymous bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	further = gtid.New(gtid.MySQL)
	if h.maria {
		further = gtid.New(gtid.MariaDB)
	}
	at = h.at
	for _, e := range h.ends {
		for _, r := range e.more {
			h.applyTo(further, r)
		}
		h.applyTo(further, e.last)
		at = e
	}
	if h.open.order > at.order {
		h.judge(h.open.last)
		h.applyTo(further, h.open.last)
		at = h.open
	}
	if h.seen.order > at.order {
		at = h.seen
	}
	return at, further, h.anonymous
}

// merge halves the number of transaction ends. Of each pair of neighbors it keeps the later end, with the transactions
// of both.
func (h *history) merge() {
	kept := h.ends[:0]
	for i := 0; i+1 < len(h.ends); i += 2 {
		a, b := h.ends[i], h.ends[i+1]
		if run, ok := h.joinTwo(a.last, b.last); ok && len(a.more)+len(b.more) == 0 {
			b.last = run
		} else {
			b.more = h.join(append(append(a.more, a.last), b.more...))
		}
		kept = append(kept, b)
	}
	if len(h.ends)%2 == 1 {
		kept = append(kept, h.ends[len(h.ends)-1])
	}
	clear(h.ends[len(kept):])
	h.ends = kept
}

// joinTwo makes one sequence of transactions from two, of which b follows a in the log. On MySQL, ok is true if their
// numbers are consecutive. On MariaDB, ok is true if both are of one domain, and run is b.
func (h *history) joinTwo(a, b gtidRun) (run gtidRun, ok bool) {
	switch {
	case a.last == 0:
		return b, true
	case b.last == 0:
		return a, true
	case h.maria:
		return b, h.names[a.sid].name == h.names[b.sid].name
	}
	return gtidRun{a.sid, a.first, b.last}, a.sid == b.sid && a.last+1 == b.first
}

// join merges sequences of transactions. For a MariaDB domain only the last sequence counts, regardless of its server.
// MySQL's sequences are sorted, and adjacent ones are merged.
func (h *history) join(runs []gtidRun) []gtidRun {
	if h.maria {
		out := runs[:0]
		for i, r := range runs {
			later := func(x gtidRun) bool { return x.last != 0 && h.names[x.sid].name == h.names[r.sid].name }
			if r.last != 0 && !slices.ContainsFunc(runs[i+1:], later) {
				out = append(out, r)
			}
		}
		return out
	}
	slices.SortFunc(runs, func(a, b gtidRun) int {
		return cmp.Or(cmp.Compare(a.sid, b.sid), cmp.Compare(a.first, b.first))
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

// upTo drops the transaction ends that are not after the given log position. It returns the last end that this or an
// earlier call dropped, and the transactions up to that end (nil: unknown).
func (h *history) upTo(order int64) (end, *gtid.Set) {
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

// latest returns the log position where the latest transaction ends, and all transactions up to there. before is nil if
// they are unknown, or if the last of them has no GTID.
func (h *history) latest() (order int64, before *gtid.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	order = h.at.order
	if n := len(h.ends); n > 0 {
		order = h.ends[n-1].order
	}
	if !h.gtids || h.anonymous {
		return order, nil
	}
	before = h.base.Clone()
	for _, e := range h.ends {
		for _, r := range e.more {
			h.applyTo(before, r)
		}
		h.applyTo(before, e.last)
	}
	return order, before
}

// handedOut is like latest, but `before` also has the unfinished transaction, if rows of it were delivered.
func (h *history) handedOut() (order int64, before *gtid.Set) {
	order, before = h.latest()
	h.mu.Lock()
	defer h.mu.Unlock()
	if before != nil {
		h.applyTo(before, h.open.last)
	}
	return order, before
}

func (h *history) apply(r gtidRun) {
	if h.gtids {
		h.applyTo(h.base, r)
	}
}

func (h *history) applyTo(set *gtid.Set, r gtidRun) {
	if r.last == 0 {
		return
	}
	s := h.names[r.sid]
	if h.maria {
		// On MariaDB, a domain's position is its last transaction in the binlog. Without gtid_strict_mode, that transaction
		// may have a lower number than an earlier one.
		set.AddMaria(s.name, s.server, r.last)
		return
	}
	set.Add(s.name, gtid.Run{First: r.first, Last: r.last})
}
