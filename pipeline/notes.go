package pipeline

import (
	"maps"
	"slices"
	"sync"

	"replicator"
)

// notes holds what a run saves in its views' checkpoints besides progress: which views must be compared with the
// source, and whether a view's dead letters were compared with the sink. Its mutex may be locked while that of progress
// is held.
type notes struct {
	mu      sync.Mutex
	doubted map[string]int64 // by view that must be compared: log position of the reason, such as a TRUNCATE
	letters map[string]bool  // by view: whether the store's dead letters were compared with the sink
	dirty   bool             // the notes changed since they were last saved
}

func newNotes(from []replicator.Checkpoint) *notes {
	n := &notes{doubted: map[string]int64{}, letters: map[string]bool{}}
	for _, c := range from {
		if c.Swapped != 0 {
			n.doubted[c.View] = c.Swapped
		}
		n.letters[c.View] = c.Letters
	}
	return n
}

func (n *notes) addTo(c *replicator.Checkpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Swapped, c.Letters = n.doubted[c.View], n.letters[c.View]
}

// lastDoubt returns the highest log position in `doubted`; 0: no view must be compared with the source. The sink stores
// only this one position, for all views together.
func (n *notes) lastDoubt() (last int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirty = false
	for _, order := range n.doubted {
		last = max(last, order)
	}
	return last
}

func (n *notes) changed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dirty
}

// setDoubted records that views must be compared with the source, because rows changed at the log position `order` and
// the log does not say which. It reports whether any of the views had no pending comparison yet.
func (n *notes) setDoubted(views viewSet, order int64) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		news = news || n.doubted[v.Name] == 0
		n.doubted[v.Name], n.dirty = order, true
	}
	return news
}

// setEvicted records that views, which have reached the log position `order`, must be compared with the source, because
// their sink lost data. A comparison in progress doesn't count: data that it has already compared may be lost, too.
func (n *notes) setEvicted(views viewSet, order int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.doubted[v.Name], n.dirty = max(order, n.doubted[v.Name]+1), true
	}
}

func (n *notes) addDoubted(all map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.Copy(all, n.doubted)
}

func (n *notes) due(views viewSet) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(views, func(v *replicator.View) bool { return n.doubted[v.Name] != 0 })
}

func (n *notes) compared(view string, at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doubted[view] == at && at != 0 {
		delete(n.doubted, view)
		n.dirty = true
	}
}

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
