package pipeline

import (
	"maps"
	"slices"
	"sync"
	"time"

	"replicator"
)

// progress is how far the views of a run have come. It outlives sessions. Guarded by its mutex: the run's goroutine and
// those of its session write it, anybody may read it.
type progress struct {
	views viewSet

	mu     sync.Mutex
	marked []replicator.Checkpoint // by view: what was marked last. The next session begins there, and nowhere else
	now    replicator.Standing     // of all together, with what was applied since
	read   replicator.Position     // the latest place applied up to, with what was read beyond it; zero: not known
	dirty  bool                    // the fill has moved since the last mark
}

func newProgress(views viewSet, from []replicator.Checkpoint) *progress {
	p := &progress{views: views, marked: slices.Clone(from)}
	p.now = lowestOf(views, p.marked)
	for _, c := range from {
		p.read = later(p.read, later(c.Position, c.Read))
	}
	return p
}

// restart lets the views stand where their next session begins.
func (p *progress) restart(at []replicator.Checkpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marked, p.now = at, lowestOf(p.views, at)
}

// refill lets the views begin a fill. What was read before counts no more.
func (p *progress) refill(c replicator.Checkpoint) {
	p.restart(eachAt(p.views, c))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = replicator.Position{}
}

// position is the place up to which the running session has applied everything, marked or not.
func (p *progress) position() replicator.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Position
}

func (p *progress) moveTo(at replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Position = at
}

// positions are where the views stand. A session begins at the earliest; what was read beyond that is proved with it.
func (p *progress) positions() (at []replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.marked {
		if !slices.Contains(at, c.Position) {
			at = append(at, c.Position)
		}
		if read := p.readBeyond(c); !read.IsZero() && !slices.Contains(at, read) {
			at = append(at, read)
		}
	}
	return at
}

// readTo notes how far a session has read: some of that may be in the sink, wherever the next one begins.
func (p *progress) readTo(at replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = later(p.read, at)
}

// readBeyond is what was read beyond where a view stands; zero if that is not known. p.mu is held.
func (p *progress) readBeyond(c replicator.Checkpoint) replicator.Position {
	if p.read.Order < c.Position.Order {
		return replicator.Position{}
	}
	return p.read
}

// later is the later of two positions; the second if they are at one place.
func later(a, b replicator.Position) replicator.Position {
	if b.IsZero() || a.Order > b.Order {
		return a
	}
	return b
}

// checkpoints are what was marked last of each view.
func (p *progress) checkpoints() []replicator.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := slices.Clone(p.marked)
	for i := range last {
		last[i].Read = p.readBeyond(last[i])
	}
	return last
}

// standing is how far the views have come, as it is to be marked.
func (p *progress) standing() replicator.Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = false
	now := p.now
	now.Fill = maps.Clone(now.Fill)
	return now
}

// mark says that a standing was marked, and returns the checkpoints that may now be saved, with the views' notes.
func (p *progress) mark(at replicator.Standing, notes *notes) []replicator.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.marked {
		c := &p.marked[i]
		if c.Unmarked {
			c.Standing, c.Unmarked = at, false
		} else {
			c.Standing = c.Raise(at)
		}
		c.Read = p.readBeyond(*c)
		notes.addTo(c)
	}
	return slices.Clone(p.marked)
}

// The progress of a fill.

func (p *progress) filling() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Filling()
}

// filledMore reports whether a fill has moved since the last mark.
func (p *progress) filledMore() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dirty
}

// repairing reports whether everything is written whatever the views are believed to hold.
func (p *progress) repairing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Repair
}

func (p *progress) fillStart() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.FillFrom
}

// unfilledTables are the tables that still have to be scanned, in a fixed order.
func (p *progress) unfilledTables() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tables []string
	for t, of := range p.now.Fill {
		if !of.Done {
			tables = append(tables, t)
		}
	}
	slices.Sort(tables)
	return tables
}

func (p *progress) table(name string) replicator.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Fill[name]
}

func (p *progress) setTable(name string, to replicator.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Filling() {
		p.now.Fill[name], p.dirty = to, true
	}
}

// filled ends the fill.
func (p *progress) filled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Fill, p.now.FillFrom, p.now.Repair, p.dirty = nil, 0, false, true
}

// describe fills in how far the fill is, and returns when it began; zero: there is none. Epochs are made of the clock,
// and never go back.
func (p *progress) describe(st *replicator.ViewStatus) (began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows, total int64
	for _, t := range p.now.Fill {
		rows, total = rows+t.Rows, total+t.Total
	}
	st.FilledRows = rows
	if total > 0 {
		st.Progress = min(1, float64(rows)/float64(total))
	}
	if p.now.Filling() {
		began = time.UnixMicro(p.now.Epoch)
	}
	return began
}
