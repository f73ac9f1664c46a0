package main

import (
	"context"
	"errors"
	"sync"

	"replicator"
	"replicator/server"
)

// front is what the HTTP side asks: the app of one configuration after another. While none is there, requests wait for
// the next; one that a change-over cuts short is asked again of the next, so that a fence holds through it.
type front struct {
	mu    sync.Mutex
	now   *generation   // nil: none is there at the moment
	ready chan struct{} // closed when one is
}

// generation is an app, and who is asking it something.
type generation struct {
	app    *app
	ending context.Context
	end    context.CancelFunc
	asking sync.WaitGroup // Add only while it is the front's now, and with its lock
}

var (
	_ server.Controller = (*front)(nil)
	_ server.Rebuilder  = (*front)(nil)
	_ server.Pauser     = (*front)(nil)
)

func newFront() *front { return &front{ready: make(chan struct{})} }

// enter makes an app the one that is asked.
func (f *front) enter(a *app) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = &generation{app: a}
	f.now.ending, f.now.end = context.WithCancel(context.Background())
	close(f.ready)
}

// leave returns once nobody asks the app any more: it may be closed.
func (f *front) leave() {
	f.mu.Lock()
	g := f.now
	f.now, f.ready = nil, make(chan struct{})
	f.mu.Unlock()
	g.end()
	g.asking.Wait()
}

var errChanging = errors.New("the program changes to another configuration")

// with asks the app that is there.
func (f *front) with(ctx context.Context, ask func(ctx context.Context, c control) error) error {
	for {
		f.mu.Lock()
		g, ready := f.now, f.ready
		if g != nil {
			g.asking.Add(1)
		}
		f.mu.Unlock()
		if g == nil {
			select {
			case <-ready:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := g.ask(ctx, ask); err == nil || g.ending.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (g *generation) ask(ctx context.Context, ask func(ctx context.Context, c control) error) error {
	defer g.asking.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ending, func() { cancel(errChanging) })()
	return ask(ctx, control{g.app})
}

// Status implements server.Controller.
func (f *front) Status(ctx context.Context) (views []replicator.ViewStatus, err error) {
	err = f.with(ctx, func(ctx context.Context, c control) (err error) {
		views, err = c.Status(ctx)
		return err
	})
	return views, err
}

// Wait implements server.Controller.
func (f *front) Wait(ctx context.Context, fence server.Fence, views []string) error {
	return f.with(ctx, func(ctx context.Context, c control) error { return c.Wait(ctx, fence, views) })
}

// Retry implements server.Controller.
func (f *front) Retry(ctx context.Context, which server.Selection) (tried, left int, err error) {
	err = f.with(ctx, func(ctx context.Context, c control) (err error) {
		tried, left, err = c.Retry(ctx, which)
		return err
	})
	return tried, left, err
}

// Drop implements server.Controller.
func (f *front) Drop(ctx context.Context, which server.Selection) (dropped int, err error) {
	err = f.with(ctx, func(ctx context.Context, c control) (err error) {
		dropped, err = c.Drop(ctx, which)
		return err
	})
	return dropped, err
}

// Rebuild implements server.Rebuilder.
func (f *front) Rebuild(ctx context.Context, view string, how server.Rebuild) error {
	return f.with(ctx, func(ctx context.Context, c control) error { return c.Rebuild(ctx, view, how) })
}

// Pause implements server.Pauser.
func (f *front) Pause(ctx context.Context, view string) error {
	return f.with(ctx, func(ctx context.Context, c control) error { return c.Pause(ctx, view) })
}

// Resume implements server.Pauser.
func (f *front) Resume(ctx context.Context, view string) error {
	return f.with(ctx, func(ctx context.Context, c control) error { return c.Resume(ctx, view) })
}

// sourceStats are those of the app that is there.
func (f *front) sourceStats(ctx context.Context) (all []server.SourceStats) {
	_ = f.with(ctx, func(ctx context.Context, c control) error { // without an app there is nothing to tell
		all = c.app.sourceStats(ctx)
		return nil
	})
	return all
}
