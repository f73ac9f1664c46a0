package pipeline

import (
	"maps"
	"slices"
	"sync"

	"replicator"
)

// notes are what checkpoints say of a run's views beside where they stand. They outlive sessions. Guarded by their
// mutex, which may be taken while that of a progress is held.
type notes struct {
	mu      sync.Mutex
	swapped map[string]int64 // by view: where a table of its was replaced by another one, until the two are compared
	letters map[string]bool  // by view: the store was told which cells the sink knows to be dead letters
	dirty   bool             // they changed since they were marked last
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

// addTo puts a view's notes in its checkpoint.
func (n *notes) addTo(c *replicator.Checkpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Swapped, c.Letters = n.swapped[c.View], n.letters[c.View]
}

// lastSwap is the latest place of a swap that a view is to be compared for, as it is to be marked: there is one mark
// for all, and where the store is lost a view may be compared for nothing.
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

// setSwapped says that views have to be compared with the source, for what happened at an order. It reports whether that
// is new of one of them.
func (n *notes) setSwapped(views viewSet, order int64) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		news = news || n.swapped[v.Name] == 0
		n.swapped[v.Name], n.dirty = order, true
	}
	return news
}

// setEvicted says that views have to be compared with the source, for what their sink lost while they were at an order.
// It is another comparison than one that is under way: what that found may be lost since.
func (n *notes) setEvicted(views viewSet, order int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.swapped[v.Name], n.dirty = max(order, n.swapped[v.Name]+1), true
	}
}

// addSwaps adds the views that are to be compared with the source to others.
func (n *notes) addSwaps(all map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.Copy(all, n.swapped)
}

// due reports whether one of the views is to be compared with the source.
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

// lettersKnown reports whether the store was told which cells of a view the sink knows to be dead.
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
