package service

import (
	"context"
	"errors"
	"sync"

	"replicator"
	"replicator/internal/remedy"
	"replicator/server"
)

// Front passes HTTP requests to the service of the current configuration. Requests wait while there is no service. If a
// reload interrupts a request, Front repeats the request with the next service.
type Front struct {
	mu    sync.Mutex
	now   *generation   // the current service; nil: there is no service now
	ready chan struct{} // closed once there is a service again

	remedies remedy.File
}

// answerer is the part of a service that answers HTTP requests.
type answerer interface {
	server.Controller
	SourceStats(ctx context.Context) []server.SourceStats
}

// generation is a service together with the requests that use it.
type generation struct {
	service answerer
	ending  context.Context
	end     context.CancelFunc
	asking  sync.WaitGroup // counts requests; call Add only while holding Front.mu and if Front.now is this generation
}

var _ answerer = (*Front)(nil)

// NewFront returns a Front without a service.
func NewFront() *Front { return &Front{ready: make(chan struct{})} }

func (f *Front) enter(s answerer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = &generation{service: s}
	f.now.ending, f.now.end = context.WithCancel(context.Background())
	close(f.ready)
}

// leave ends the requests that use the service and waits for them. Then the service can be closed.
func (f *Front) leave() {
	f.mu.Lock()
	g := f.now
	f.now, f.ready = nil, make(chan struct{})
	f.mu.Unlock()
	g.end()
	g.asking.Wait()
}

var errChanging = errors.New("the program is switching to another configuration. Try again")

func (f *Front) with(ctx context.Context, ask func(ctx context.Context, s answerer) error) error {
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
			return f.remedies.Err(err)
		}
	}
}

func (g *generation) ask(ctx context.Context, ask func(ctx context.Context, s answerer) error) error {
	defer g.asking.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ending, func() { cancel(errChanging) })()
	return ask(ctx, g.service)
}

func answerOf[T any](ctx context.Context, f *Front, ask func(context.Context, answerer) (T, error)) (
	answer T, err error,
) {
	err = f.with(ctx, func(ctx context.Context, s answerer) (err error) {
		answer, err = ask(ctx, s)
		return err
	})
	return answer, err
}

// Status returns the answer of the current service. In the views' errors, it adds "-c FILE" to commands such as
// `replicator rebuild VIEW`.
func (f *Front) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	views, err := answerOf(ctx, f, func(ctx context.Context, s answerer) ([]replicator.ViewStatus, error) {
		return s.Status(ctx)
	})
	for i := range views {
		v := &views[i]
		v.Error = f.remedies.In(v.Error)
		if v.LastError != nil {
			last := *v.LastError
			last.Error = f.remedies.In(last.Error)
			v.LastError = &last
		}
	}
	return views, err
}

func (f *Front) Wait(ctx context.Context, fence server.Fence, views []string) error {
	return f.with(ctx, func(ctx context.Context, s answerer) error { return s.Wait(ctx, fence, views) })
}

func (f *Front) Retry(ctx context.Context, which server.Selection) (tried, left int, err error) {
	err = f.with(ctx, func(ctx context.Context, s answerer) (err error) {
		tried, left, err = s.Retry(ctx, which)
		return err
	})
	return tried, left, err
}

func (f *Front) Drop(ctx context.Context, which server.Selection) (int, error) {
	return answerOf(ctx, f, func(ctx context.Context, s answerer) (int, error) { return s.Drop(ctx, which) })
}

func (f *Front) Rebuild(ctx context.Context, view string, how server.Rebuild) error {
	return f.with(ctx, func(ctx context.Context, s answerer) error { return s.Rebuild(ctx, view, how) })
}

func (f *Front) Pause(ctx context.Context, view string) error {
	return f.with(ctx, func(ctx context.Context, s answerer) error { return s.Pause(ctx, view) })
}

func (f *Front) Resume(ctx context.Context, view string) error {
	return f.with(ctx, func(ctx context.Context, s answerer) error { return s.Resume(ctx, view) })
}

func (f *Front) Look(ctx context.Context, view, source string, cells []replicator.Cell) error {
	return f.with(ctx, func(ctx context.Context, s answerer) error { return s.Look(ctx, view, source, cells) })
}

func (f *Front) LetterGroups(ctx context.Context, view string) ([]server.LetterGroup, error) {
	return answerOf(ctx, f, func(ctx context.Context, s answerer) ([]server.LetterGroup, error) {
		return s.LetterGroups(ctx, view)
	})
}

func (f *Front) Letter(ctx context.Context, id string) (replicator.DeadLetter, error) {
	return answerOf(ctx, f, func(ctx context.Context, s answerer) (replicator.DeadLetter, error) {
		return s.Letter(ctx, id)
	})
}

// SourceStats returns the stats of the current service's sources; nil if there is no service.
func (f *Front) SourceStats(ctx context.Context) (all []server.SourceStats) {
	_ = f.with(ctx, func(ctx context.Context, s answerer) error { // an error means that there is no service
		all = s.SourceStats(ctx)
		return nil
	})
	return all
}
