// Package sleep waits for a time, as long as somebody wants it: the standard library's
// Sleep knows no context.
package sleep

import (
	"context"
	"time"
)

// For waits, or until ctx ends: then it gives ctx's error. A duration that is not positive
// waits for nothing.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
