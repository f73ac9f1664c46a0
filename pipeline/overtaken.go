package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
)

// An epoch exists once the sink has registered it: see replicator.EpochOf. A session marks where its reader begins, in
// the reader's epoch, before it applies anything, and begins in the highest epoch that memory, the store and the sink
// know. A mark fails if the sink's has another epoch (replicator.Overtaken), which ends the session: nothing was saved
// since the mark before, and what was stale because of its epoch is read again. So nothing is stale in silence.
//
// Two replicators that read two servers would take a view from each other in turns, until there are no epochs left. The
// one that was overtaken waits, and says so. It takes over when the other one has ended: its own source has what the
// sink's mark does not include, and the mark stood still for longer than that of a replicator that runs. A process that
// has not registered an epoch yet, and a rebuild, take over at once: somebody started them.

// standstill is for how long the mark of a replicator that runs stands still at most while there is more to include.
const standstill = idleMark + 10*time.Second

// rival is what a run knows of another replicator, which reads another server and took a view over.
type rival struct {
	told  *replicator.Overtaken // what ended the last session. Where a sink has parts, its mark says the lowest of theirs
	mark  replicator.Position   // that was seen last
	since time.Time             // since when it stands still, and the own source has more than it includes; zero: it has not
}

// register says that all marks of a session have the epoch of a position.
func (s *shared) register(at replicator.Position) {
	for epoch := int64(at.Epoch()) + 1; ; {
		highest := s.registered.Load()
		if epoch <= highest || s.registered.CompareAndSwap(highest, epoch) {
			return
		}
	}
}

// above is what a run finds of epochs above those where its views stand, before a session.
type above struct {
	*run
	mark replicator.Position // that has the highest; zero: none has one
	// The highest mark of an epoch in which a view stands at an earlier place, or at the same one and the mark says
	// something else of what was read beyond it: the store is older. Zero: none.
	ahead     replicator.Position
	overtaken []string // views that this process kept up, and whose marks are of an epoch that it never registered
}

// compare compares where a view stands with its mark in the sink.
func (a *above) compare(c replicator.Checkpoint, m *replicator.Mark) {
	var by replicator.Position
	if m != nil {
		by = m.Position
	}
	if told := a.rival.told; told != nil && told.View == c.View {
		by = later(by, told.By)
	}
	if by.Epoch() == c.Position.Epoch() && by.Order >= c.Position.Order && by != c.Position && !c.Unmarked {
		a.ahead = later(a.ahead, by) // if the source's log lacks it, the views show what the source lost
	}
	if by.Epoch() <= c.Position.Epoch() {
		return
	}
	a.mark = later(a.mark, by)
	if ours := a.registered.Load(); !c.Unmarked && ours > 0 && int64(by.Epoch()) >= ours {
		a.overtaken = append(a.overtaken, c.View)
	}
}

// proofs are the marks that the source's log has to have beside the places where the views stand.
func (a *above) proofs() []replicator.Position {
	return slices.DeleteFunc([]replicator.Position{a.mark, a.ahead}, replicator.Position.IsZero)
}

// yield fails for views that another replicator has taken over, until that has ended. Where it reads the same log as
// this one, they go on together.
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
	return replicator.Fatal(replicator.OfView(a.cfg.ofSink(fmt.Errorf("another replicator, which reads another server, has "+
		"taken over %s. Stop the one that is not meant to run. If that is the other one, this one goes on two minutes after "+
		"a change that the other one missed, or at once if you restart it", strings.Join(a.overtaken, ", "))),
		a.overtaken...))
}
