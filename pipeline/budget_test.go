package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestALargeRowIsNotKeptOutBySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 1)
		if err := b.take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		taken := make(chan int64, 3)
		take := func(ctx context.Context, n int64) {
			if b.take(ctx, n) == nil {
				taken <- n
			}
		}
		go take(t.Context(), 100)
		synctest.Wait()
		go take(t.Context(), 2)
		synctest.Wait()
		if len(taken) > 0 {
			t.Fatalf("%d bytes were taken before what had waited longer", <-taken)
		}
		b.give(1)
		if n := <-taken; n != 100 {
			t.Errorf("%d bytes were taken first", n)
		}
		b.give(100)
		if n := <-taken; n != 2 || b.used != 2 {
			t.Errorf("then %d, and %d are used", n, b.used)
		}

		// A waiter that gives up does not block the others.
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- b.take(ctx, 100) }()
		synctest.Wait()
		go take(t.Context(), 3)
		synctest.Wait()
		cancel(errStopped)
		if err := <-failed; !errors.Is(err, errStopped) {
			t.Error(err)
		}
		if n := <-taken; n != 3 || b.used != 5 {
			t.Errorf("after one gave up %d, and %d are used", n, b.used)
		}
	})
}
