package judge

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"replicator"
)

// Marks is what an open target saw or marked last, by view. By it a mark that fell is noticed: the sink lost data. It
// is safe for concurrent use.
//
// What was lost may all have been applied since the last mark: a server that crashed or failed over lost no mark
// then, and where the client takes another connection between two batches, nothing fails. The next mark would say
// that all of it is there. So Marks knows the server, too, by a name that another one, or the same one started again,
// does not have: if another one answers, and something was applied since the last mark, nothing is marked. The
// session that begins then applies it again.
type Marks struct {
	views   []*replicator.View
	applied atomic.Bool // something was, since the last mark

	mu      sync.Mutex
	last    []replicator.Standing
	server  string   // that has the marks; "": not known
	foreign []string // views whose marks another target had moved, as the last Mark found them
}

// NewMarks begins with how far each view was when the target was opened, and on which server; "" if that has no name.
func NewMarks(views []*replicator.View, at []replicator.Standing, server string) *Marks {
	return &Marks{views: views, last: slices.Clone(at), server: server}
}

// Applied notes that a batch was applied. It has to be called before the batch counts as applied.
func (m *Marks) Applied() { m.applied.Store(true) }

// ErrOtherServer is the error of a mark that another server would have.
var ErrOtherServer = errors.New("the server was restarted, or another one has its place: what was written since the " +
	"last mark may be lost, and is written again")

// ErrFell is the error of a mark that is there, and less than what was marked: the sink fell back.
var ErrFell = fmt.Errorf("fell: %w", replicator.ErrSinkLost)

// ErrRegistered is the error of a mark in an epoch that another target has registered since this one was opened. That
// one may be of another log, so the epoch that follows is for the next session to choose.
var ErrRegistered = errors.New("another replicator has begun to write to it meanwhile")

// Marking is one attempt to mark all views of a target.
type Marking struct {
	marks   *Marks
	at      replicator.Standing
	next    []replicator.Standing
	applied bool
	server  string
	foreign map[int]bool // by view: another target had moved its mark
}

// Expected is the server that has to answer; "" if any may.
func (m *Marking) Expected() string {
	if m.applied {
		return m.marks.server
	}
	return ""
}

// Answered says which server answers. It fails with ErrOtherServer if nothing may be marked there.
func (m *Marking) Answered(server string) error {
	if e := m.Expected(); e != "" && e != server {
		return ErrOtherServer
	}
	m.server = server
	return nil
}

// Mark has write read the views' marks, raise each, and write them on the condition that nobody else did meanwhile. If
// it returns nil, what it raised the marks to is what this target has seen. One call at a time runs.
func (m *Marks) Mark(at replicator.Standing, write func(*Marking) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return nil
	}
	// What is applied from here on may not be in the mark.
	marking := &Marking{marks: m, at: at, next: slices.Clone(m.last), server: m.server, applied: m.applied.Swap(false),
		foreign: map[int]bool{}}
	if err := write(marking); err != nil {
		if marking.applied {
			m.applied.Store(true)
		}
		return err
	}
	m.last, m.server, m.foreign = marking.next, marking.server, nil
	for i, v := range m.views {
		if marking.foreign[i] {
			m.foreign = append(m.foreign, v.Name)
		}
	}
	return nil
}

// Foreign implements replicator.Shared.
func (m *Marks) Foreign() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.foreign)
}

// Check fails with ErrSinkLost if what the sink says of a view is less than what this target saw or marked there, and
// with ErrRegistered if another target has registered the epoch that is marked.
func (m *Marking) Check(view int, stood replicator.Standing) error {
	last, is, at := m.marks.last[view], stood.Position, m.at.Position
	if stood.Below(last) {
		return fmt.Errorf("the mark of view %s %w", m.marks.views[view].Name, ErrFell)
	}
	registers := last.Position.IsZero() || last.Position.Epoch() < at.Epoch()
	if registers && !is.IsZero() && is.Epoch() == at.Epoch() && is != at {
		return fmt.Errorf("view %s: %w", m.marks.views[view].Name, ErrRegistered)
	}
	m.foreign[view] = is.Order != last.Position.Order
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
	raised := stood.Raise(m.at)
	return raised, m.Note(view, raised)
}

// At is what is marked.
func (m *Marking) At() replicator.Standing { return m.at }

// Note says what a view's mark comes to, where that is not what Raise said: it is kept in several copies. It fails with
// replicator.Overtaken if that is not of the epoch that is marked: what this target applies would be stale, or another
// one's would.
func (m *Marking) Note(view int, marked replicator.Standing) error {
	if marked.Position.Epoch() != m.at.Position.Epoch() {
		return &replicator.Overtaken{View: m.marks.views[view].Name, By: marked.Position}
	}
	m.next[view] = marked
	return nil
}
