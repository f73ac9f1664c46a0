package canal

import (
	"math"
	"slices"
	"sync"
)

// layouts are the watched tables' layouts along the binlog. Rows whose columns the log doesn't name (MySQL's default,
// and MariaDB's) are read by them. No row is read by a layout that it may not have:
//
//   - A position has the digest of each table's layout there, and the store has the layouts (Config.Layouts). Where it
//     has none, or the position is of another server, the layout is unknown at first: up to the last statement that
//     changed the table's columns (scout).
//   - From there on the log's own statements say how a layout changes (alteration). Behind one that isn't understood it
//     is unknown.
//   - What a table is now is read with the end of the log at that moment (readSchemaAt): from that place on the layout is
//     known for certain, unless a statement changes it again. What the statements led to is compared with it there.
//   - Each table map is compared with the layout: one that doesn't fit makes it unknown.
//
// Rows of a table whose layout is unknown are passed over, and so counted as changed without a list: the handler is
// told (replicator.Handler.Unlogged), and so it is where the statements led to another layout than the table has.
type layouts struct {
	mu sync.Mutex
	of map[string]*track // by the table's name in the configuration

	settles int64 // the lowest place at which a track is to be settled; MaxInt64: none is
}

// track is one table's layout along the log.
type track struct {
	along []layoutFrom // in the order of the log; the first from the beginning on

	// Layouts that are certain at places that reading has not reached, in the order of the log. What information_schema
	// shows is the last of them.
	ahead []layoutFrom

	derived bool   // rows were read by layouts, since one was certain last
	told    bool   // the handler was told that rows are passed over, until the layout is certain
	misfit  string // the digest of a certain layout that table maps did not fit
}

// layoutFrom is a layout from an order on; nil where it is unknown.
type layoutFrom struct {
	order  int64
	layout *layout
}

func newLayouts() *layouts { return &layouts{of: map[string]*track{}, settles: math.MaxInt64} }

// open begins a table's track where reading begins, with layouts that are certain there or later.
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
	// Nobody who needs the table's rows begins before the first place at which a position knows its layout.
	t.told = t.at() == nil && len(t.ahead) > 1
	l.of[name] = t
	l.setSettles()
}

// unknown reports whether a table's layout is not known where reading begins, nor at a later position.
func (l *layouts) unknown(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	return t.at() == nil && len(t.ahead) == 1
}

// known notes that a table is what it is now from a place on, which is at or behind the start of reading.
func (l *layouts) known(name string, from, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	t.ahead[0].order = min(t.ahead[0].order, from)
	if from == start {
		t.along[0].layout, t.ahead = t.ahead[0].layout, nil
	}
	l.setSettles()
}

func (l *layouts) setSettles() {
	l.settles = math.MaxInt64
	for _, t := range l.of {
		if len(t.ahead) > 0 {
			l.settles = min(l.settles, t.ahead[0].order)
		}
	}
}

// settled notes what a pattern stands for from an order on.
func (l *layouts) settled(name string, order int64, members *layout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[name].from(order, members)
}

// at is a table's layout at the place that was read last; nil if that is unknown.
func (t *track) at() *layout { return t.along[len(t.along)-1].layout }

// from notes a layout from an order on.
func (t *track) from(order int64, x *layout) {
	t.along = append(t.along, layoutFrom{order, x})
}

// current is a table's layout at the place that was read last; nil if that is unknown.
func (l *layouts) current(name string) *layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[name].at()
}

// due reports whether a layout becomes certain at or before an order.
func (l *layouts) due(order int64) bool { return order >= l.settles }

// settle makes layouts certain that have become so at an order, and returns the tables whose rows were read by another
// layout than they had.
func (l *layouts) settle(order int64) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range l.of {
		for len(t.ahead) > 0 && t.ahead[0].order <= order {
			certain := t.ahead[0]
			if was := t.at(); was != nil && !was.same(certain.layout) && t.derived && !slices.Contains(wrong, name) {
				wrong = append(wrong, name)
			}
			t.along, t.ahead = append(t.along, certain), t.ahead[1:]
			t.derived, t.told = false, false
		}
	}
	l.setSettles()
	return wrong
}

// altered notes what a statement that ends at an order makes of a table, and returns that. It reports whether what the
// table is now has to be read again. behind is asked for it, and hears whether rows of the table are passed over.
func (l *layouts) altered(
	name string, order int64, behind func(before *layout, told bool) *layout,
) (after *layout, reread bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	if after = behind(t.at(), t.told); after != t.at() {
		t.from(order, after)
		t.misfit = ""
	}
	return after, len(t.ahead) == 0
}

// await notes what a table is now, as of the log's end at an order.
func (l *layouts) await(name string, now *layout, order int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	t.ahead = append(t.ahead, layoutFrom{order, now})
	l.setSettles()
}

// awaited reports whether it is known what a table will be at a later place.
func (l *layouts) awaited(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of[name].ahead) > 0
}

// readBy notes that rows are read by a table's present layout.
func (l *layouts) readBy(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[name].derived = true
}

// passOver reports whether the handler has to be told that rows of a table are passed over: once until its layout is
// certain.
func (l *layouts) passOver(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	tell := !t.told
	t.told = true
	return tell
}

// unfit notes that rows at an order can't have a table's layout, which is unknown from there on. It reports whether
// what the table is now has to be read again; certain says that it was, for the same reason, and is still the same.
func (l *layouts) unfit(name string, order int64) (reread, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[name]
	was := t.at()
	switch {
	case len(t.ahead) > 0: // it is known what the table will be
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

// digests are the tables' digests at an order; "" where their layouts are not known.
func (l *layouts) digests(order int64) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	digests := make(map[string]string, len(l.of))
	for name, t := range l.of {
		if nameOf(name) != name { // of each table of a pattern it is found out anew
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

// forget drops what lies before an order.
func (l *layouts) forget(order int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.of {
		for len(t.along) > 1 && t.along[1].order <= order {
			t.along = t.along[1:]
		}
	}
}
