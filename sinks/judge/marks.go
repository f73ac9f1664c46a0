package judge

import (
	"fmt"
	"slices"
	"sync"

	"replicator"
)

// Marks is what an open target saw or marked last, by view. By it a mark that fell is noticed: the sink lost data. It is
// safe for concurrent use.
type Marks struct {
	views []*replicator.View

	mu   sync.Mutex
	last []replicator.Standing
}

// NewMarks begins with how far each view was when the target was opened.
func NewMarks(views []*replicator.View, at []replicator.Standing) *Marks {
	return &Marks{views: views, last: slices.Clone(at)}
}

// Marking is one attempt to mark all views of a target.
type Marking struct {
	marks *Marks
	at    replicator.Standing
	next  []replicator.Standing
}

// Mark has write read the views' marks, raise each, and write them on the condition that nobody else did meanwhile. If
// it returns nil, what it raised the marks to is what this target has seen. One call at a time runs.
func (m *Marks) Mark(at replicator.Standing, write func(*Marking) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return nil
	}
	marking := &Marking{marks: m, at: at, next: slices.Clone(m.last)}
	if err := write(marking); err != nil {
		return err
	}
	m.last = marking.next
	return nil
}

// Check fails with ErrSinkLost if what the sink says of a view is less than what this target saw or marked there.
func (m *Marking) Check(view int, stood replicator.Standing) error {
	if stood.Below(m.marks.last[view]) {
		return fmt.Errorf("the mark of view %s fell: %w", m.marks.views[view].Name, replicator.ErrSinkLost)
	}
	return nil
}

// Gone is the error for a view whose mark is not there any more.
func (m *Marking) Gone(view int) error {
	return fmt.Errorf("the mark of view %s is gone: %w", m.marks.views[view].Name, replicator.ErrSinkLost)
}

// Raise checks a view's mark, and returns what is to be marked where that stood.
func (m *Marking) Raise(view int, stood replicator.Standing) (replicator.Standing, error) {
	if err := m.Check(view, stood); err != nil {
		return replicator.Standing{}, err
	}
	m.Note(view, stood.Raise(m.at))
	return m.next[view], nil
}

// At is what is marked.
func (m *Marking) At() replicator.Standing { return m.at }

// Note says what a view's mark comes to, where that is not what Raise said: it is kept in several copies.
func (m *Marking) Note(view int, marked replicator.Standing) { m.next[view] = marked }
