package replicator

import (
	"context"
	"fmt"
)

// Pause stops a view where it is, until Resume or a restart of the program: nothing is written to it.
func (p *Pipeline) Pause(ctx context.Context, name string) error {
	return p.ask(ctx, func(ctx context.Context) error {
		v := p.view(name)
		if v == nil {
			return fmt.Errorf("sink %s keeps no view %q", p.Name, name)
		}
		out, err := p.takeOut(ctx, []*View{v})
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
		return p.launchAt([]Checkpoint{c})
	})
}
