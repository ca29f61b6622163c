package histories

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// copying is one process of the backfill. Its workers stop at each control point
// until a step lets one of them go on.
type copying struct {
	done   chan error // closed by nobody; one answer
	cancel context.CancelFunc
	moved  chan struct{} // a worker has come to a control point

	mu     sync.Mutex
	gates  []chan struct{}
	free   bool // nothing stops any more
	frozen bool
}

func startCopying(ctx context.Context, w *world, h history, mode backfill.Mode) *copying {
	c := &copying{done: make(chan error, 1), moved: make(chan struct{}, 1)}
	ctx, c.cancel = context.WithCancel(ctx)
	cfg := backfill.Config{Source: w.targets[0], Databases: w.targets[1:], Layout: w.layout, Workers: 1 + int(h.seed%2), Mode: mode}
	cfg.Signals.Pages = h.pages
	cfg.Signals.Noted = func(backfill.Chunk) { c.stopHere(ctx) }
	cfg.Signals.Before = func(backfill.Chunk, string) { c.stopHere(ctx) }
	cfg.Signals.Judged = func(backfill.Chunk, string) { c.stopHere(ctx) }
	cfg.Signals.Committed = func(backfill.Chunk, string) { c.tell() }
	go func() {
		_, err := backfill.Run(ctx, cfg)
		c.done <- err
		c.tell()
	}()
	c.await()
	return c
}

func (c *copying) tell() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// stopHere is where a worker waits for a step.
func (c *copying) stopHere(ctx context.Context) {
	c.mu.Lock()
	if c.free {
		c.mu.Unlock()
		return
	}
	gate := make(chan struct{})
	c.gates = append(c.gates, gate)
	c.mu.Unlock()
	c.tell()
	select {
	case <-gate:
	case <-ctx.Done():
	}
}

// await waits for a worker to come to a control point. One that waits for a lock, or
// for another worker, comes to none.
func (c *copying) await() {
	select {
	case <-c.moved:
	case <-time.After(20 * time.Millisecond):
	}
}

// step lets one worker go on to its next control point.
func (c *copying) step(which int) {
	c.mu.Lock()
	if n := len(c.gates); n > 0 && !c.frozen {
		i := which % n
		close(c.gates[i])
		c.gates = append(c.gates[:i], c.gates[i+1:]...)
	}
	c.mu.Unlock()
	c.await()
}

// release lets all workers go on to the end.
func (c *copying) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free, c.frozen = true, false
	for _, gate := range c.gates {
		close(gate)
	}
	c.gates = nil
}

// ended gives whether the process has ended. Rows without a key stop it where the
// spec refuses them, and it may be stopped itself.
func (c *copying) ended() bool {
	select {
	case err := <-c.done:
		c.done <- nil
		var f *migrate.Failure
		if errors.As(err, &f) && f.Code == "backfill.no_key" || errors.Is(err, context.Canceled) || unexpected(err) == nil {
			return true
		}
		check(fmt.Errorf("backfill: %w", err))
		return true
	default:
		return false
	}
}

// stop ends the process in the midst of its work.
func (c *copying) stop() {
	c.cancel()
	c.release()
	err := <-c.done
	c.done <- err
}

// copies are the processes of the backfill in a history.
type copies struct {
	w   *world
	h   history
	now *copying
	old []*copying // frozen, or on their way to the end
}

func (c *copies) play(ctx context.Context, st step) {
	if c.now != nil && c.now.ended() {
		c.now = nil
	}
	switch st.kind {
	case startCopy:
		if c.now == nil {
			c.now = startCopying(ctx, c.w, c.h, []backfill.Mode{"", backfill.Live}[st.a%2])
		}
	case copyStep:
		for i := range 1 + st.b/2 {
			if c.now != nil {
				c.now.step(st.c + i)
			}
		}
	case stopCopy:
		if c.now != nil {
			c.now.stop()
			c.now.ended()
			c.now = nil
		}
	case freezeCopy:
		c.freeze(ctx)
	case thawCopy:
		for _, o := range c.old {
			o.release()
		}
	}
}

// freeze leaves a process where it stands, its session of the queue gone: another
// takes its chunks, and it wakes up later.
func (c *copies) freeze(ctx context.Context) {
	if c.now == nil {
		return
	}
	c.now.frozen = true
	c.old, c.now = append(c.old, c.now), nil
	check(pgtest.EndSessions(ctx, c.w.monitor, "datname = current_database() AND application_name = 'shardctl backfill queue'"))
}

// finish brings the copy to its end: by what runs, and then by a process that finds
// what it left.
func (c *copies) finish(ctx context.Context, mend func()) {
	if c.now != nil {
		c.old = append(c.old, c.now)
	}
	for _, o := range c.old {
		o.release()
	}
	for _, o := range c.old {
		c.wait(ctx, o)
	}
	c.now, c.old = nil, nil
	for range 3 {
		mend()
		last := startCopying(ctx, c.w, c.h, "")
		last.release()
		c.wait(ctx, last)
		var phase string
		check(c.w.conns[0].QueryRow(ctx, "SELECT phase FROM shardctl.migration").Scan(&phase))
		if phase == string(migrate.Backfilled) {
			return
		}
	}
	check(errors.New("the copy does not come to its end"))
}

func (c *copies) wait(ctx context.Context, o *copying) {
	for !o.ended() {
		select {
		case <-o.moved:
		case <-ctx.Done():
			check(fmt.Errorf("a copy does not end: %w", ctx.Err()))
		}
	}
}

// abandon ends all processes, after a failure.
func (c *copies) abandon() {
	if c.now != nil {
		c.old = append(c.old, c.now)
	}
	for _, o := range c.old {
		o.stop()
	}
}
