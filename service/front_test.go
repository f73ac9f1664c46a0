package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/server"
)

// answering is a service that only answers fences, and only when a test says so.
type answering struct {
	answerer
	asked  int
	answer chan error
}

func (a *answering) Wait(ctx context.Context, _ server.Fence, _ []string) error {
	a.asked++
	select {
	case err := <-a.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *answering) Status(context.Context) ([]replicator.ViewStatus, error) {
	return []replicator.ViewStatus{{View: "v"}}, nil
}

func TestARequestWaitsUntilAServiceIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFront()
		got := make(chan error)
		go func() {
			views, err := f.Status(t.Context())
			if err == nil && len(views) != 1 {
				err = errors.New("it is not the service's answer")
			}
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("answered with nobody there: %v", err)
		default:
		}
		f.enter(&answering{})
		if err := <-got; err != nil {
			t.Error(err)
		}
		f.leave()
	})
}

func TestAFenceHoldsThroughAChangeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFront()
		first, second := &answering{}, &answering{answer: make(chan error, 1)}
		f.enter(first)
		got := make(chan error, 1)
		go func() { got <- f.Wait(t.Context(), server.Fence{At: "f:4"}, nil) }()
		synctest.Wait()
		f.leave() // ends the request and waits for it
		if first.asked != 1 {
			t.Errorf("the first service was asked %d times", first.asked)
		}
		second.answer <- nil
		f.enter(second)
		if err := <-got; err != nil || second.asked != 1 {
			t.Errorf("the next service was asked %d times; %v", second.asked, err)
		}
		f.leave()
	})
}

func TestAnErrorIsTheServicesAnswerUnlessItIsLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFront()
		refused := errors.New("refused")
		a := &answering{answer: make(chan error, 1)}
		a.answer <- refused
		f.enter(a)
		if err := f.Wait(t.Context(), server.Fence{}, nil); !errors.Is(err, refused) || a.asked != 1 {
			t.Errorf("asked %d times: %v", a.asked, err)
		}
		f.leave()
	})
}

func TestWhoGivesUpWaitsForNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFront()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error)
		go func() { got <- f.Wait(ctx, server.Fence{}, nil) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("without a service: %v", err)
		}
		a := &answering{}
		f.enter(a)
		ctx, cancel = context.WithCancel(t.Context())
		go func() { got <- f.Wait(ctx, server.Fence{}, nil) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || a.asked != 1 {
			t.Errorf("with one, asked %d times: %v", a.asked, err)
		}
		f.leave()
	})
}
