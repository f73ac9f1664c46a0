package pipeline

import (
	"maps"
	"slices"
	"sync"

	"replicator"
)

// notes are what checkpoints say of a run's views besides their progress. They outlive sessions. Their mutex guards
// them; it may be taken while that of a progress is held.
type notes struct {
	mu      sync.Mutex
	swapped map[string]int64 // by view: where one of its tables was replaced by another, until the view is compared
	letters map[string]bool  // by view: the store was told which cells are dead letters in the sink
	dirty   bool             // they changed since the last mark
}

func newNotes(from []replicator.Checkpoint) *notes {
	n := &notes{swapped: map[string]int64{}, letters: map[string]bool{}}
	for _, c := range from {
		if c.Swapped != 0 {
			n.swapped[c.View] = c.Swapped
		}
		n.letters[c.View] = c.Letters
	}
	return n
}

// addTo adds a view's notes to its checkpoint.
func (n *notes) addTo(c *replicator.Checkpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Swapped, c.Letters = n.swapped[c.View], n.letters[c.View]
}

// lastSwap is the latest position of a table swap for which a view must be compared, to be marked. There is one mark
// for all views, so after the loss of a store a view may be compared in vain.
func (n *notes) lastSwap() (last int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirty = false
	for _, order := range n.swapped {
		last = max(last, order)
	}
	return last
}

func (n *notes) changed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dirty
}

// setSwapped records that views must be compared with the source, because of an event at an order. It reports whether
// that is new for one of them.
func (n *notes) setSwapped(views viewSet, order int64) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		news = news || n.swapped[v.Name] == 0
		n.swapped[v.Name], n.dirty = order, true
	}
	return news
}

// setEvicted records that views must be compared with the source, because their sink lost data while they were at an
// order. A comparison in progress doesn't count: what it found may have been lost since.
func (n *notes) setEvicted(views viewSet, order int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.swapped[v.Name], n.dirty = max(order, n.swapped[v.Name]+1), true
	}
}

// addSwaps adds the views that must be compared with the source to others.
func (n *notes) addSwaps(all map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.Copy(all, n.swapped)
}

// due reports whether one of the views must be compared with the source.
func (n *notes) due(views viewSet) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(views, func(v *replicator.View) bool { return n.swapped[v.Name] != 0 })
}

func (n *notes) compared(view string, at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.swapped[view] == at && at != 0 {
		delete(n.swapped, view)
		n.dirty = true
	}
}

// lettersKnown reports whether the store was told which cells of a view are dead in the sink.
func (n *notes) lettersKnown(view string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.letters[view]
}

func (n *notes) setLettersKnown(view string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.letters[view], n.dirty = true, true
}
