package pipeline

import (
	"context"
	"fmt"
	"time"

	"replicator"
)

// begun is the checkpoint of views that there was nothing of before, as StartAt says.
func (p *Pipeline) begun(ctx context.Context, views []*replicator.View, known []replicator.Position) (c replicator.Checkpoint, err error) {
	c.Source, c.Unmarked = p.Source.Name(), true
	switch p.StartAt {
	case "earliest":
		c.Position, err = p.Source.Oldest(ctx, known)
	case "latest":
		c.Position, err = p.Source.Latest(ctx, known)
	default:
		return p.anew(ctx, views, known)
	}
	return c, askedPosition(err)
}

// again is the checkpoint of views that were reset: they begin as StartAt says, and a fill rewrites what they hold.
func (p *Pipeline) again(ctx context.Context, views []*replicator.View, known []replicator.Position) (replicator.Checkpoint, error) {
	c, err := p.begun(ctx, views, known)
	if c.Repair = c.Filling(); !c.Repair {
		c.Epoch = p.nextEpoch() // the mark that says so counts until there is a later one
	}
	return c, err
}

// anew is the checkpoint of views that are filled from offset zero. It is that of a rebuild, of views that were lost or
// that changed, too: StartAt says only where new ones begin.
func (p *Pipeline) anew(ctx context.Context, views []*replicator.View, known []replicator.Position) (c replicator.Checkpoint, err error) {
	c.Source, c.Unmarked = p.Source.Name(), true
	c.Position, err = p.Source.Latest(ctx, known)
	c.Fill, c.FillFrom, c.Epoch = fillOf(views), c.Position.Order, p.nextEpoch()
	return c, askedPosition(err)
}

// nextEpoch is the epoch of a fill that begins now, above those of all that are known: the clock may have been ahead.
func (p *Pipeline) nextEpoch() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = max(p.epoch+1, time.Now().UnixMicro())
	return p.epoch
}

// sawEpoch says that there was a fill of an epoch.
func (p *Pipeline) sawEpoch(epoch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = max(p.epoch, epoch)
}

func askedPosition(err error) error {
	if err != nil {
		err = fmt.Errorf("asking the source for its position: %w", err)
	}
	return err
}
