package sinktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"replicator"
)

// probe records the failure of a step that should fail, instead of failing the test.
type probe struct {
	testing.TB
	mu   sync.Mutex
	said string
	over bool // it failed or was skipped
}

func (p *probe) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over = true; p.said == "" {
		p.said = text
	}
}

func (p *probe) Errorf(format string, args ...any) { p.note(fmt.Sprintf(format, args...)) }
func (p *probe) Fatalf(format string, args ...any) { p.Errorf(format, args...); runtime.Goexit() }
func (p *probe) Fatal(args ...any)                 { p.note(fmt.Sprint(args...)); runtime.Goexit() }
func (p *probe) Skip(args ...any)                  { p.note("skipped: " + fmt.Sprint(args...)); runtime.Goexit() }

// fails runs a step of the contract against a subject, and returns the failure; "" if the step passes.
func fails(t *testing.T, s Subject, step func(*fixture)) string {
	t.Helper()
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f := newFixture(p, &s, 1<<8)
		step(f)
		f.clear()
	}()
	<-done
	return p.said
}

// broken is a sink with a fault. Its functions, if set, replace methods of the reference sink.
type broken struct {
	*Reference
	open   func(replicator.Target) replicator.Target
	forget func(view string) error
	swap   func(source string, views []*replicator.View) error
}

func (b broken) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := b.Reference.Open(ctx, source, views)
	if err == nil && b.open != nil {
		t = b.open(t)
	}
	return t, err
}

func (b broken) Forget(ctx context.Context, view string) error {
	if b.forget != nil {
		return b.forget(view)
	}
	return b.Reference.Forget(ctx, view)
}

func (b broken) Swap(ctx context.Context, source string, views []*replicator.View) error {
	if b.swap != nil {
		return b.swap(source, views)
	}
	return b.Reference.Swap(ctx, source, views)
}

type differences = []replicator.Difference

// faulty is a target with a fault.
type faulty struct {
	*memoryTarget
	apply    func([]replicator.Op) []replicator.Op
	compare  func([]replicator.Op, differences) differences
	outdated func(before int64, after string, limit int) outdated
	held     func(cells []replicator.Cell, next string) ([]replicator.Cell, string)
	strays   func([]replicator.Stray) []replicator.Stray
	tidy     func(view int, strays []replicator.Stray) (int, error)
}

// outdated is a page that Outdated returns.
type outdated struct {
	cells []replicator.Cell
	next  string
	err   error
}

// tells makes a sink whose Outdated returns the given pages.
func tells(page func(t *memoryTarget, before int64, after string, limit int) outdated) func(*Reference) broken {
	return with(func(t *memoryTarget) faulty {
		return faulty{memoryTarget: t, outdated: func(before int64, after string, limit int) outdated {
			return page(t, before, after, limit)
		}}
	})
}

func (f faulty) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if f.apply != nil {
		ops = f.apply(slices.Clone(ops))
	}
	return f.memoryTarget.Apply(ctx, ops)
}

func (f faulty) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	d, err := f.memoryTarget.Compare(ctx, ops)
	if f.compare != nil {
		d = f.compare(ops, d)
	}
	return d, err
}

func (f faulty) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	if f.outdated != nil {
		page := f.outdated(before, after, limit)
		return page.cells, page.next, page.err
	}
	return f.memoryTarget.Outdated(ctx, before, after, limit)
}

func (f faulty) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	cells, next, err := f.memoryTarget.Held(ctx, view, after, limit)
	if f.held != nil {
		cells, next = f.held(cells, next)
	}
	return cells, next, err
}

func (f faulty) Strays(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Stray, string, error) {
	strays, next, err := f.memoryTarget.Strays(ctx, view, after, limit)
	if f.strays != nil {
		strays = f.strays(strays)
	}
	return strays, next, err
}

func (f faulty) Unclaimed(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	if f.strays != nil {
		return nil, "", nil // it reports strays only through Strays
	}
	return f.memoryTarget.Unclaimed(ctx, view, after, limit)
}

func (f faulty) Tidy(ctx context.Context, view int, strays []replicator.Stray) (int, error) {
	if f.tidy != nil {
		return f.tidy(view, strays)
	}
	return f.memoryTarget.Tidy(ctx, view, strays)
}
