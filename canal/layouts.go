package canal

import (
	"math"
	"slices"
	"sync"
)

// layouts tracks the layouts (columns and types) of the watched tables along the binlog, which by default does not name
// columns. No row is decoded with a layout that may be wrong:
//
//   - The saved position has the digest of each table's layout, and the store has the layout (Config.Layouts). If the
//     digest or the layout is missing, the layout is unknown up to the log's last statement that changed the table's
//     columns (scout).
//   - From there on, statements in the log say how a layout changes (alteration). After a statement that isn't
//     understood, the layout is unknown.
//   - The table's current columns are certain from the position where the log ended when they were read.
//   - Each table map is compared with the layout. A mismatch makes the layout unknown.
//
// While a table's layout is unknown, its rows are skipped, and the handler is told that rows changed
// (replicator.Handler.Unlogged).
type layouts struct {
	mu sync.Mutex
	of map[string]*track // by watched.id; for a pattern, also by its configured name

	nextAhead int64 // the lowest log position (as a number) at which an `ahead` layout takes effect; MaxInt64: none
}

// track holds the layouts of one table along the log.
type track struct {
	along []layoutFrom // the layouts up to the last position read, in log order; the first applies from the log's start

	// The layouts (columns of the table) that certainly apply from log positions not yet read, in the order of the log.
	// The last one was read from information_schema.
	ahead []layoutFrom

	// Both are reset when a layout from `ahead` takes effect.
	decoded bool // rows were decoded; if the next layout from `ahead` is a different one, settle reports the table
	told    bool // the handler was told that rows of the table are skipped

	// The digest of the layout in force at the last mismatch with a table map. The table's columns are read again after
	// the first mismatch. A second mismatch with the same layout is an error.
	misfit string
}

// layoutFrom is a layout, and the log position (as a number) from which it applies. A nil layout is unknown.
type layoutFrom struct {
	order  int64
	layout *layout
}

func newLayouts() *layouts { return &layouts{of: map[string]*track{}, nextAhead: math.MaxInt64} }

// open starts tracking a table at the log position where reading begins (start). certain has the layouts known for
// sure, each with the log position from which it applies.
func (l *layouts) open(name string, start int64, certain []layoutFrom) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &track{along: []layoutFrom{{math.MinInt64, nil}}}
	for _, c := range certain {
		if c.order <= start {
			t.along[0].layout = c.layout
		} else {
			t.ahead = append(t.ahead, c)
		}
	}
	// If another start position has the table's layout, the rows before it are skipped. The handler need not be told,
	// because no view that reads the table begins before that position.
	t.told = t.at() == nil && len(t.ahead) > 1
	l.of[name] = t
	l.setNextAhead()
}

// unknown reports whether a table's layout is unknown where reading begins. Only its current one is known then, from
// information_schema.
func (l *layouts) unknown(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	return t.at() == nil && len(t.ahead) == 1
}

// known records that a table has its current columns from the log position `from` on. The caller makes sure that this
// is at or after start, where reading begins.
func (l *layouts) known(name string, from, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	t.ahead[0].order = min(t.ahead[0].order, from)
	if from == start {
		t.along[0].layout, t.ahead = t.ahead[0].layout, nil
	}
	l.setNextAhead()
}

func (l *layouts) setNextAhead() {
	l.nextAhead = math.MaxInt64
	for _, t := range l.of {
		if len(t.ahead) > 0 {
			l.nextAhead = min(l.nextAhead, t.ahead[0].order)
		}
	}
}

// settled records which tables a pattern matches after the given log position.
func (l *layouts) settled(name string, order int64, members *layout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[name].from(order, members)
}

func (t *track) at() *layout { return t.along[len(t.along)-1].layout }

func (t *track) from(order int64, x *layout) {
	t.along = append(t.along, layoutFrom{order, x})
}

// current returns a table's layout at the last position read; nil if unknown.
func (l *layouts) current(name string) *layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[name].at()
}

// due reports whether any track has a layout in `ahead` that applies at the given log position.
func (l *layouts) due(order int64) bool { return order >= l.nextAhead }

// settle makes the layouts in `ahead` that apply at the given log position the current ones. It returns the tables
// whose rows were decoded with a wrong layout before that position.
func (l *layouts) settle(order int64) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range l.of {
		for len(t.ahead) > 0 && t.ahead[0].order <= order {
			next := t.ahead[0]
			if was := t.at(); was != nil && !was.same(next.layout) && t.decoded && !slices.Contains(wrong, name) {
				wrong = append(wrong, name)
			}
			t.along, t.ahead = append(t.along, next), t.ahead[1:]
			t.decoded, t.told = false, false
		}
	}
	l.setNextAhead()
	return wrong
}

// altered records that a statement changes a table's layout. The statement ends at the log position `order`. The
// function `change` computes the new layout from the old one; `told` says that the handler already knows that rows of
// the table are skipped. `reread` reports whether the table's columns must be read from the server again.
func (l *layouts) altered(
	name string, order int64, change func(before *layout, told bool) *layout,
) (after *layout, reread bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	if after = change(t.at(), t.told); after != t.at() {
		t.from(order, after)
		t.misfit = ""
	}
	return after, len(t.ahead) == 0
}

// addCurrent records a table's current columns. They apply from the log position `order`, where the log ended when the
// columns were read.
func (l *layouts) addCurrent(name string, now *layout, order int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	t.ahead = append(t.ahead, layoutFrom{order, now})
	l.setNextAhead()
}

func (l *layouts) hasAhead(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of[name].ahead) > 0
}

// readBy records that rows were decoded with the table's layout.
func (l *layouts) readBy(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[name].decoded = true
}

// tellOnce reports whether the handler must be told that rows of a table are skipped. After the first call it returns
// false, until the next layout from track.ahead takes effect.
func (l *layouts) tellOnce(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	tell := !t.told
	t.told = true
	return tell
}

// unfit records that the table map at the given log position does not fit the table's layout. reread says that the
// table's columns must be read from the server again. confirmed says that they were already read again because of this
// layout, and have not changed. Unless it is confirmed, the layout is unknown from that position on.
func (l *layouts) unfit(name string, order int64) (reread, confirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	was := t.at()
	switch {
	case len(t.ahead) > 0: // the layout of a later position is known already, so the columns need not be read again
	case was != nil && t.misfit == was.digest():
		return false, true
	default:
		t.misfit, reread = was.digest(), true
	}
	if was != nil {
		t.from(order, nil)
	}
	return reread, false
}

// digests returns the digest of each table's layout at the given log position; "" for unknown layouts.
func (l *layouts) digests(order int64) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	digests := make(map[string]string, len(l.of))
	for name, t := range l.of {
		if nameOf(name) != name { // skip tables that a pattern matched: they are listed again whenever a reader starts
			continue
		}
		digests[name] = t.layoutAt(order).digest()
	}
	return digests
}

func (t *track) layoutAt(order int64) (at *layout) {
	for _, along := range [][]layoutFrom{t.along, t.ahead} {
		for _, x := range along {
			if x.order <= order {
				at = x.layout
			}
		}
	}
	return at
}

// forget drops the layouts that applied only before the given log position.
func (l *layouts) forget(order int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.of {
		for len(t.along) > 1 && t.along[1].order <= order {
			t.along = t.along[1:]
		}
	}
}
