package judge

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"replicator"
)

// Marks holds, for an open target, the last mark of each view that the target saw or wrote. It detects a mark that
// fell, which means that the sink lost data. It is safe for concurrent use.
//
// A server that crashes or fails over may lose only the changes since the last mark, so that no mark falls. If the
// client connects to the new server between two batches, no request fails either, and the next mark would cover the
// lost changes. So Marks also remembers the server's name, which is different after a restart or a failover. If the
// name has changed, and a batch was applied since the last mark, Mark fails with ErrOtherServer. The next session then
// applies the changes again.
type Marks struct {
	views   []*replicator.View
	applied atomic.Bool // a batch was applied since the last mark

	mu      sync.Mutex
	last    []replicator.Standing
	server  string   // the name of the server that has the marks; "": unknown
	foreign []string // views whose marks another target moved, as of the last Mark
}

// NewMarks returns Marks that start from each view's progress when the target was opened. server is the server's name;
// "" if it has none.
func NewMarks(views []*replicator.View, at []replicator.Standing, server string) *Marks {
	return &Marks{views: views, last: slices.Clone(at), server: server}
}

// Applied records that a batch was applied. A sink must call it before its Target.Apply returns.
func (m *Marks) Applied() { m.applied.Store(true) }

// ErrOtherServer is the error of a mark that would go to another server than the last one.
var ErrOtherServer = errors.New("the server was restarted, or another one took its place: changes since the last " +
	"mark may be lost, and are applied again")

// ErrFell is the error of a mark that is lower than the one last seen: the sink lost data.
var ErrFell = fmt.Errorf("fell: %w", replicator.ErrSinkLost)

// ErrRegistered is the error of a target's first mark in an epoch (the upper bits of a position's Order), if another
// target has marked the same epoch since this one was opened. The other target may read another log, so the next
// session must choose the next epoch.
var ErrRegistered = errors.New("another replicator has started writing to the view since this one opened it")

// Marking is one attempt to mark all views of a target.
type Marking struct {
	marks   *Marks
	at      replicator.Standing
	next    []replicator.Standing
	applied bool
	server  string
	foreign map[int]bool // by view: another target has moved the mark since this one last saw or wrote it
}

// Expected returns the name of the server that must answer, because it has the changes since the last mark. It returns
// "" if any server may answer.
func (m *Marking) Expected() string {
	if m.applied {
		return m.marks.server
	}
	return ""
}

// Answered records which server answers. It fails with ErrOtherServer if that is not the expected server.
func (m *Marking) Answered(server string) error {
	if e := m.Expected(); e != "" && e != server {
		return ErrOtherServer
	}
	m.server = server
	return nil
}

// Mark calls write, which must read the views' marks, raise each, and write them on the condition that no other process
// wrote meanwhile. If write returns nil, the raised marks become the last seen ones. Only one call runs at a time.
func (m *Marks) Mark(at replicator.Standing, write func(*Marking) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return nil
	}
	// A batch that is applied from here on sets m.applied again, because the mark may not include it.
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

// Check checks stood, the sink's mark of a view. It fails with ErrSinkLost if stood is lower than the last mark that
// this target saw or wrote, and with ErrRegistered if another target has registered the epoch to be marked.
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

// Gone is the error for a view whose mark is gone.
func (m *Marking) Gone(view int) error {
	return fmt.Errorf("the mark of view %s is gone: %w", m.marks.views[view].Name, replicator.ErrSinkLost)
}

// Raise checks a view's mark, and returns the mark to be written instead.
func (m *Marking) Raise(view int, stood replicator.Standing) (replicator.Standing, error) {
	if err := m.Check(view, stood); err != nil {
		return replicator.Standing{}, err
	}
	raised := stood.Raise(m.at)
	return raised, m.Note(view, raised)
}

// Note records a view's new mark. If the mark has several copies, the sink calls Note. Otherwise Raise calls it. Note
// fails with replicator.Overtaken if the new mark does not have the epoch of the position that is being marked: another
// target has begun a later epoch, or a later fill of the view.
func (m *Marking) Note(view int, marked replicator.Standing) error {
	if marked.Position.Epoch() != m.at.Position.Epoch() {
		return &replicator.Overtaken{View: m.marks.views[view].Name, By: marked.Position}
	}
	m.next[view] = marked
	return nil
}
