package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
)

// The epoch of a position grows when the source moves to a different server or begins a new log. Changes of a lower
// epoch are stale in the sink. So if two replicators read two servers, the one with the higher epoch takes the views
// over. The one with the lower epoch waits until the other has ended. Otherwise they would take the views from each
// other in turns.

// standstill is the longest time for which a running replicator leaves its position in the sink unchanged while its
// source has new changes.
const standstill = idleMark + 10*time.Second

// rival is another replicator that reads a different server and has taken over a view.
type rival struct {
	// told is the last Overtaken error that ended a session. It has the other replicator's position. If the sink has
	// several shards, Sink.Marks may return a lower position, because it returns the lowest of all shards.
	told *replicator.Overtaken

	mark replicator.Position // the other replicator's position in the sink, as last read
	// since is when this process began to wait for `mark` to move; zero: it does not wait, because the other replicator
	// has read all of this source's log
	since time.Time
}

// register records in `registered` that this process has saved the position `at` in the sink.
func (s *shared) register(at replicator.Position) {
	for epoch := int64(at.Epoch()) + 1; ; {
		highest := s.registered.Load()
		if epoch <= highest || s.registered.CompareAndSwap(highest, epoch) {
			return
		}
	}
}

// above collects the positions in the sink that are ahead of the views' checkpoints: in a later epoch of the log, or
// later in the same epoch.
type above struct {
	*run
	mark replicator.Position // the highest position in the sink whose epoch is above its view's checkpoint; zero: none
	// ahead is the highest position in the sink that is ahead of its view's checkpoint in the same epoch; zero: none.
	// It is set if the store is older than the sink, or if another replicator also maintains the view.
	ahead     replicator.Position
	overtaken []string // views that another process has moved to a later epoch of the log
}

func (a *above) compare(c replicator.Checkpoint, m *replicator.Mark) {
	var by replicator.Position
	if m != nil {
		by = m.Position
	}
	if told := a.rival.told; told != nil && told.View == c.View {
		by = later(by, told.By)
	}
	if by.Epoch() == c.Position.Epoch() && by.Order >= c.Position.Order && by != c.Position && !c.Unmarked {
		a.ahead = later(a.ahead, by)
	}
	if by.Epoch() <= c.Position.Epoch() {
		return
	}
	a.mark = later(a.mark, by)
	if ours := a.registered.Load(); !c.Unmarked && ours > 0 && int64(by.Epoch()) >= ours {
		a.overtaken = append(a.overtaken, c.View)
	}
}

// required returns the positions in the sink that the source's log must contain, besides those of the checkpoints. If
// the log lacks one, the views show changes that the source has lost.
func (a *above) required() []replicator.Position {
	return slices.DeleteFunc([]replicator.Position{a.mark, a.ahead}, replicator.Position.IsZero)
}

// yield fails if another replicator has taken over views, unless that replicator reads the same log. It no longer fails
// once that replicator has not saved a position for `standstill`, although this source has newer changes.
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
		"server, has taken over %s. Stop the replicator that should not run. To continue with this replicator, stop "+
		"the other one and restart this one. Without the restart, this one waits for a change on its server that the "+
		"other one has not read, and continues two minutes later",
		strings.Join(a.overtaken, ", "))),
		a.overtaken...))
}
