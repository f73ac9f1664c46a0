package pipeline

import (
	"maps"
	"slices"
	"sync"

	"replicator"
)

// progress is the progress of a run's views. It outlives sessions. A mutex guards it: the goroutines of the run and of
// its session write it, any goroutine may read it.
type progress struct {
	views viewSet

	mu     sync.Mutex
	marked []replicator.Checkpoint // by view: progress that the sink has, where the next session begins
	now    replicator.Standing     // progress of all views together, including changes applied since the last save
	// read.Token says how far the log was read. read.Order is only the latest applied position. Zero: unknown.
	read replicator.Position
	// required are positions in the sink that are ahead of the checkpoints. The source's log must contain them;
	// otherwise the views show changes that the source lost.
	required []replicator.Position
	dirty    bool // the fill has progressed since it was last saved in the sink
}

func newProgress(views viewSet, from []replicator.Checkpoint) *progress {
	p := &progress{views: views, marked: slices.Clone(from)}
	p.now = lowestOf(views, p.marked)
	for _, c := range from {
		p.read = later(p.read, later(c.Position, c.Read))
	}
	return p
}

// restart makes the views' next session begin at the given checkpoints (at). The source's log must contain their
// positions, and those in `required`.
func (p *progress) restart(at []replicator.Checkpoint, required ...replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marked, p.now, p.required = at, lowestOf(p.views, at), required
}

// refill makes the next session begin a fill of the views. It clears p.read, because the source may have lost the log
// that was read: the log that it has now need not contain any of that.
func (p *progress) refill(c replicator.Checkpoint) {
	p.restart(eachAt(p.views, c))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = replicator.Position{}
}

// current returns the views' present progress. The session has applied everything up to the returned Position, but may
// not have saved it yet. Callers must not write to the returned Fill.
func (p *progress) current() replicator.Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *progress) moveTo(at replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Position = at
}

// positions returns the positions that the source's log must contain. The reader starts at the earliest of them.
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
	return append(at, p.required...)
}

// readTo records how far a session has read the log. The sink may already have some of the changes up to there, even if
// the next session begins earlier.
func (p *progress) readTo(at replicator.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = later(p.read, at)
}

// readBeyond returns p.read, which says how far the log was read; zero if p.read is unknown, or before the view's
// position. The caller holds p.mu.
func (p *progress) readBeyond(c replicator.Checkpoint) replicator.Position {
	if p.read.Order < c.Position.Order {
		return replicator.Position{}
	}
	return p.read
}

// later returns the later of two positions. If they are equal, it returns the second.
func later(a, b replicator.Position) replicator.Position {
	if b.IsZero() || a.Order > b.Order {
		return a
	}
	return b
}

func (p *progress) checkpoints() []replicator.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := slices.Clone(p.marked)
	for i := range last {
		last[i].Read = p.readBeyond(last[i])
	}
	return last
}

func (p *progress) toMark() replicator.Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = false
	return p.now
}

// mark records that progress (at) was saved in the sink. It returns the checkpoints that may now be saved in the store.
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

func (p *progress) filledMore() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dirty
}

func (p *progress) setTable(name string, to replicator.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Filling() {
		fill := maps.Clone(p.now.Fill) // a copy, because another goroutine may be reading the map
		fill[name] = to
		p.now.Fill, p.dirty = fill, true
	}
}

func (p *progress) filled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Fill, p.now.FillFrom, p.now.Repair, p.dirty = nil, 0, false, true
}
