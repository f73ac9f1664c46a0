package pipeline

import (
	"context"
	"errors"
	"fmt"

	"replicator"
)

// ErrPaused: the view is paused.
var ErrPaused = errors.New("it is paused: resume it first")

// Pause stops a view where it is, until Resume or a restart of the program: nothing is written to it. A rebuild in
// place, or a fill, of the view goes on after that; a shadow of it is filled meanwhile, but swapped in only then.
func (p *Pipeline) Pause(ctx context.Context, name string) error {
	return p.ask(ctx, func(ctx context.Context) error {
		v := p.view(name)
		if v == nil {
			return fmt.Errorf("sink %s keeps no view %q", p.Name, name)
		}
		out, err := p.takeOut(ctx, []*replicator.View{v})
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range out {
			p.paused[c.View] = c
		}
		return nil
	})
}

// Resume lets a paused view go on from where it stopped; it joins the others when it has caught up.
func (p *Pipeline) Resume(ctx context.Context, name string) error {
	return p.ask(ctx, func(context.Context) error {
		p.mu.Lock()
		c, ok := p.paused[name]
		delete(p.paused, name)
		p.mu.Unlock()
		if !ok {
			return nil
		}
		return p.launchAt([]replicator.Checkpoint{c})
	})
}

// isPaused reports whether a view is paused.
func (p *Pipeline) isPaused(v *replicator.View) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, paused := p.paused[v.Name]
	return paused
}
