package judge

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"replicator"
)

// Marks remembers each view's mark (stored progress) as an open target last read or wrote it. If the stored mark has
// fallen since, the sink lost data. Marks is safe for concurrent use.
//
// A server that fails over may lose only what was applied after the last mark. Then no mark falls, but the next one
// would cover the lost changes. So Marks also remembers the server's name, which a failover changes (for some servers
// also a restart). If it changed while such changes existed, Mark fails with ErrOtherServer, and the next session
// applies the changes again.
type Marks struct {
	views   []*replicator.View
	applied atomic.Bool // a batch was applied since the last mark

	mu      sync.Mutex
	last    []replicator.Standing
	server  string   // the server that stored the last marks; "": unknown
	foreign []string // views whose marks another target had moved when Mark was last called
}

// NewMarks returns the Marks of a target that was just opened. at is each view's progress. server is the server's name;
// "" if it has none.
func NewMarks(views []*replicator.View, at []replicator.Standing, server string) *Marks {
	return &Marks{views: views, last: slices.Clone(at), server: server}
}

// Applied records that a batch was applied. A sink must call it before its Target.Apply returns.
func (m *Marks) Applied() { m.applied.Store(true) }

// ErrOtherServer means that the changes since the last mark were written to one server, and the next mark would be
// written to another.
var ErrOtherServer = errors.New("the server was restarted, or another one took its place: changes since the last " +
	"mark may be lost, and are applied again")

// ErrFell is the error of a mark that is lower than the one last seen: the sink lost data.
var ErrFell = fmt.Errorf("fell: %w", replicator.ErrSinkLost)

// ErrRegistered means that another target has already begun the epoch (the upper bits of a log position) that this one
// is about to begin. An epoch belongs to one log, and the other target may read another log. So the next session must
// choose the next epoch.
var ErrRegistered = errors.New("another replicator began to write to the view after this one had opened it. " +
	"If two replicators run by mistake, stop one. This one opens the view again automatically")

// Marking is one attempt to store the progress of all views of a target.
type Marking struct {
	marks   *Marks
	at      replicator.Standing
	next    []replicator.Standing
	applied bool
	server  string
	foreign map[int]bool // by view index: another target has moved the mark since this one last saw or wrote it
}

// Expected returns the server that must store the marks, because it has the changes since the last mark; "" if any
// server may.
func (m *Marking) Expected() string {
	if m.applied {
		return m.marks.server
	}
	return ""
}

// Answered records which server stored the marks. It fails with ErrOtherServer if that is not the expected server.
func (m *Marking) Answered(server string) error {
	if e := m.Expected(); e != "" && e != server {
		return ErrOtherServer
	}
	m.server = server
	return nil
}

// Mark calls write, which must read the views' marks, raise each (Marking.Raise), and write them on the condition that
// no other process wrote meanwhile. If write returns nil, the raised marks become the last seen ones. Only one call
// runs at a time.
func (m *Marks) Mark(at replicator.Standing, write func(*Marking) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return nil
	}
	// Clear the flag before write runs. A batch that is applied from here on sets the flag again, because this mark may
	// not cover the batch.
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

// Check compares `stood`, the mark that the sink has of a view, with the last mark that this target saw or wrote. If
// `stood` is lower, it fails with ErrSinkLost. If another target has begun the epoch that is to be marked, it fails
// with ErrRegistered.
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

// Raise returns the mark that the sink must write in place of `stood`, the mark that it has of a view. It fails where
// Check or Note does.
func (m *Marking) Raise(view int, stood replicator.Standing) (replicator.Standing, error) {
	if err := m.Check(view, stood); err != nil {
		return replicator.Standing{}, err
	}
	raised := stood.Raise(m.at)
	return raised, m.Note(view, raised)
}

// Note records a view's new mark. Raise calls Note; a sink whose marks have several copies calls Note itself. Note
// fails with replicator.Overtaken if the new mark has another epoch than the progress that Marks.Mark was given:
// another target has begun a later epoch, or a later fill of the view.
func (m *Marking) Note(view int, marked replicator.Standing) error {
	if marked.Position.Epoch() != m.at.Position.Epoch() {
		return &replicator.Overtaken{View: m.marks.views[view].Name, By: marked.Position}
	}
	m.next[view] = marked
	return nil
}
