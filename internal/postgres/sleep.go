package postgres

import (
	"context"
	"time"
)

// Sleep waits, or until ctx ends: then it gives ctx's error. A duration that is not
// positive waits for nothing.
func Sleep(ctx context.Context, d time.Duration) error {
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
