// Package pause waits for a while, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends; the error says why ctx ended.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
