package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
)

// The epoch of a position is a number that grows when the source moves to a different server or begins a new log. An
// epoch counts once the sink has registered it: see replicator.EpochOf. A session begins in the highest epoch that
// memory, the store and the sink know. Before it applies anything, it marks its reader's start position, in the
// reader's epoch. A mark fails if the sink's mark has a different epoch (replicator.Overtaken), and the failure ends
// the session. Changes of a lower epoch are stale in the sink. But nothing was saved since the previous mark, so those
// changes are read again, in the new epoch.
//
// Two replicators that read two servers would take a view from each other in turns, until no epochs are left. So the
// replicator that was overtaken waits, and reports that it does. It takes over when the other one has ended. A
// replicator has ended if its mark has not moved for longer than a running one's would, although the source has
// transactions that the mark does not include. A process that has not registered an epoch yet, and a rebuild, take over
// at once, because an operator started them.

// standstill is the longest time that a running replicator's mark stays unchanged while its source has new changes.
const standstill = idleMark + 10*time.Second

// rival is another replicator that reads a different server and has taken over a view.
type rival struct {
	// told is the last Overtaken error that ended a session. If the sink has parts, Sink.Marks returns the lowest
	// mark of all parts, so only told may show the rival's mark.
	told *replicator.Overtaken

	mark replicator.Position // the rival's mark when it was last read
	// since is when mark was first read with its present value; zero if mark includes all of the source's log
	since time.Time
}

// register records that the sink has registered the epoch of a position.
func (s *shared) register(at replicator.Position) {
	for epoch := int64(at.Epoch()) + 1; ; {
		highest := s.registered.Load()
		if epoch <= highest || s.registered.CompareAndSwap(highest, epoch) {
			return
		}
	}
}

// above collects the sink's marks that are ahead of the views' checkpoints, before a session begins. Such a mark has a
// higher epoch, or a later position in the same epoch.
type above struct {
	*run
	mark replicator.Position // the highest mark whose epoch is above the epoch of its view; zero: there is none
	// ahead is the highest mark that is ahead of its view's checkpoint in the same epoch; zero: there is none. This
	// happens if the store is an older copy, or if another replicator also maintains the view. A mark with the
	// checkpoint's Order is ahead if its Token differs.
	ahead     replicator.Position
	overtaken []string // views of this process whose marks now have an epoch that this process never registered
}

// compare compares a view's checkpoint with its mark in the sink.
func (a *above) compare(c replicator.Checkpoint, m *replicator.Mark) {
	var by replicator.Position
	if m != nil {
		by = m.Position
	}
	if told := a.rival.told; told != nil && told.View == c.View {
		by = later(by, told.By)
	}
	if by.Epoch() == c.Position.Epoch() && by.Order >= c.Position.Order && by != c.Position && !c.Unmarked {
		a.ahead = later(a.ahead, by) // if the source's log lacks this position, views show changes that the source lost
	}
	if by.Epoch() <= c.Position.Epoch() {
		return
	}
	a.mark = later(a.mark, by)
	if ours := a.registered.Load(); !c.Unmarked && ours > 0 && int64(by.Epoch()) >= ours {
		a.overtaken = append(a.overtaken, c.View)
	}
}

// proofs returns the marks that the source's log must contain, besides the views' positions. If the log lacks one, the
// views show changes that the source has lost.
func (a *above) proofs() []replicator.Position {
	return slices.DeleteFunc([]replicator.Position{a.mark, a.ahead}, replicator.Position.IsZero)
}

// yield fails for views that another replicator has taken over, until that replicator has ended. If both read the same
// log, both continue.
func (a *above) yield(ctx context.Context) error {
	if len(a.overtaken) == 0 {
		return nil
	}
	end, err := a.source.Latest(ctx, []replicator.Position{a.mark})
	if err != nil {
		return ofPosition(err)
	}
	w := &a.rival
	switch {
	case end.Epoch() == a.mark.Epoch():
		return nil
	case a.source.Includes(a.mark, end):
		w.since = time.Time{}
	case w.mark != a.mark || w.since.IsZero():
		w.mark, w.since = a.mark, time.Now()
	case time.Since(w.since) > standstill:
		return nil
	}
	return replicator.Fatal(replicator.OfView(a.cfg.ofSink(fmt.Errorf("another replicator, which reads another "+
		"server, has taken over %s. Stop the replicator that should not run. If you stop the other one, this one "+
		"continues two minutes after a change that the other one missed, or at once if you restart it",
		strings.Join(a.overtaken, ", "))),
		a.overtaken...))
}
