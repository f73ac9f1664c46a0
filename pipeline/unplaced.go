package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// unread is why the mark of a view can't be read.
func (p *Pipeline) unread(m *replicator.Mark) error {
	return replicator.OfView(fmt.Errorf("sink %s: view %s: %w", p.Name, m.View, m.Err), m.View)
}

// placeLate lets views go on whose marks could not be read before, and now can be.
func (p *Pipeline) placeLate(ctx context.Context) error {
	p.unplaced = slices.DeleteFunc(p.unplaced, func(v *replicator.View) bool { return p.rebuildOf(v) != nil || p.keptUp(v) })
	if len(p.unplaced) == 0 || time.Now().Before(p.placeAt) {
		return nil
	}
	checkpoints, err := p.resume(ctx, p.unplaced)
	if err != nil {
		p.placeAt = time.Now().Add(retryPause)
		p.Log.Error("where views go on is not known yet", "sink", p.Name, "views", names(p.unplaced), "retry_in", retryPause, "error", err)
		return nil
	}
	return p.launchTogether(checkpoints)
}
