package histories

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// catchup is the applier of a history, with at most one tick under way.
type catchup struct {
	w       *world
	batch   int
	applier *auditlog.Applier
	busy    chan error
	cancel  context.CancelFunc
}

// start makes an applier, or keeps the one that is there.
func (c *catchup) start(ctx context.Context, batch int) {
	if c.applier != nil && c.batch == batch {
		return
	}
	c.stop(ctx)
	c.batch = batch
	a, err := auditlog.New(auditlog.Config{Layout: c.w.layout, Source: c.w.targets[0], Databases: c.w.targets[1:], Term: 1, Batch: c.batch})
	check(err)
	c.applier = a
}

// stop ends the applier as a crash does: whatever it is doing.
func (c *catchup) stop(ctx context.Context) {
	if c.busy != nil {
		c.cancel()
		<-c.busy
		c.busy = nil
	}
	if c.applier != nil {
		c.applier.Close(ctx)
		c.applier = nil
	}
}

// appliers are the sessions of an applier.
const appliers = "^shardctl (apply|catchup)"

// run makes a tick, until it is done or waits for a lock.
func (c *catchup) run(ctx context.Context, f func(context.Context) ([]auditlog.Tick, error)) bool {
	if !c.settle(ctx) {
		return false
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.busy = make(chan error, 1)
	go func(done chan<- error) {
		_, err := f(ctx)
		done <- err
	}(c.busy)
	return c.settle(ctx)
}

func (c *catchup) settle(ctx context.Context) bool {
	for c.busy != nil {
		select {
		case err := <-c.busy:
			c.busy = nil
			c.cancel()
			check(unexpected(err))
			return true
		case <-time.After(settleFirst):
		}
		if c.w.waits(ctx, appliers, 0) {
			return false
		}
	}
	return true
}

// unexpected gives the error of a tick unless it passes by itself.
func unexpected(err error) error {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, one := range several.Unwrap() {
			if err := unexpected(one); err != nil {
				return err
			}
		}
		return nil
	}
	if err == nil || postgres.Transient(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("a tick: %w", err)
}

func (c *catchup) tick(ctx context.Context, names ...string) bool {
	return c.run(ctx, func(ctx context.Context) ([]auditlog.Tick, error) { return c.applier.Forward(ctx, names...) })
}

func (c *catchup) back(ctx context.Context, names ...string) bool {
	return c.run(ctx, func(ctx context.Context) ([]auditlog.Tick, error) { return c.applier.Reverse(ctx, names...) })
}

// crash makes a tick that comes as far as a lock held by the test, and ends the
// process there: it had done all before that.
func (c *catchup) crash(ctx context.Context, side int, lock string, run func(context.Context, ...string) bool) {
	if !c.settle(ctx) {
		return
	}
	tx, err := c.w.conns[side].Begin(ctx)
	check(err)
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '50ms'; "+lock)
	if err == nil {
		run(ctx)
		c.stop(ctx)
	}
	check(tx.Rollback(ctx))
	if err == nil {
		c.start(ctx, c.batch)
	}
}

const (
	lockPosition = "SELECT FROM shardctl.position FOR UPDATE"
	lockMarkers  = "LOCK TABLE shardctl.marker IN SHARE MODE"
)

// play makes one step of the applier's or of what tends the log.
func (c *catchup) play(ctx context.Context, st step) {
	one := fmt.Sprintf("db%d", 1+st.a%c.w.shape.databases)
	switch st.kind {
	case tick:
		c.tick(ctx)
	case tickOne:
		c.tick(ctx, one)
	case back:
		if st.who == 0 {
			c.back(ctx, one)
		} else {
			c.back(ctx)
		}
	case crashTick:
		c.crash(ctx, 1+st.a%c.w.shape.databases, lockPosition, c.tick)
	case crashRead:
		c.crash(ctx, 0, lockMarkers, c.tick)
	case crashBack:
		c.crash(ctx, 0, lockPosition, c.back)
	case rotate:
		c.rotate(ctx)
	case prune:
		c.prune(ctx)
	}
}

// rotate turns the logs that are written, however small they are.
func (c *catchup) rotate(ctx context.Context) {
	var forward []string
	var owner string
	for i, d := range c.w.spec.Databases {
		p, err := store.LoadPosition(ctx, c.w.conns[i+1], "m", d.Name, store.Forward)
		check(err)
		forward = append(forward, p.Snapshot)
		q, err := store.LoadPosition(ctx, c.w.conns[0], "m", d.Name, store.Reverse)
		check(err)
		check(c.w.conns[i+1].QueryRow(ctx, "SELECT owner FROM shardctl.control").Scan(&owner))
		if owner != store.OwnerSource {
			_, err = auditlog.DatabaseSide(c.w.layout, d.Name).Rotate(ctx, c.w.conns[i+1], []string{q.Snapshot}, 0)
			check(unexpected(err))
		}
	}
	_, err := auditlog.SourceSide(c.w.layout).Rotate(ctx, c.w.conns[0], forward, 0)
	check(unexpected(err))
}

// prune removes the tombstones that no chunk can need, as if their ticks were old.
func (c *catchup) prune(ctx context.Context) {
	_, err := c.w.conns[0].Exec(ctx, "UPDATE shardctl.marker SET at = at - interval '1 day'")
	check(err)
	for i, d := range c.w.spec.Databases {
		check(c.applier.PruneTombstones(ctx, c.w.conns[0], c.w.conns[i+1], d.Name))
	}
}

// drain brings all sides level, proven by a probe.
func (c *catchup) drain(ctx context.Context, reverse bool) {
	for !c.settle(ctx) {
		check(ctx.Err())
	}
	if reverse {
		check(c.applier.DrainReverse(ctx, c.w.spec.DatabaseNames()))
	}
	check(c.applier.DrainForward(ctx, c.w.spec.DatabaseNames()))
}
