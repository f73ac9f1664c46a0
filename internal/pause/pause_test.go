package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(over) })
		begin = time.Now()
		if err := For(ctx, time.Minute); !errors.Is(err, over) || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		for _, d := range []time.Duration{0, -1, time.Hour} {
			if err := For(ctx, d); !errors.Is(err, over) {
				t.Errorf("%s in what is over: %v", d, err)
			}
		}
	})
}
