package verify

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// pacer keeps the reading of the source within what the spec and the caller allow.
type pacer struct {
	pause func(context.Context) error
	rate  int // rows per second; 0 is no limit
	next  time.Time
}

func newPacer(cfg Config) *pacer {
	return &pacer{pause: cfg.Pause, rate: cfg.Layout.Spec.Throttle.MaxRate, next: time.Now()}
}

// wait returns when the next chunk may be read.
func (p *pacer) wait(ctx context.Context) error {
	if d := time.Until(p.next); d > 0 {
		if err := sleep.For(ctx, d); err != nil {
			return err
		}
	}
	if p.pause == nil {
		return nil
	}
	return p.pause(ctx)
}

// read counts rows: the next are due when these would be through at the rate.
func (p *pacer) read(rows int) {
	if p.rate > 0 {
		p.next = time.Now().Add(time.Duration(rows) * time.Second / time.Duration(p.rate))
	}
}
