package backfill

import (
	"context"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/store"
)

// relieve ends fast mode when the logs are at their soft limit: ticks go on, the
// rest is copied live.
func (r *run) relieve(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.overfull:
		}
		if err := r.buildAll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// buildAll ends fast mode wherever it is on, several databases at once.
func (r *run) buildAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.cfg.Workers)
	for _, name := range r.cfg.Only {
		group.Go(func() error {
			return r.outages.persist(ctx, name, func() error { return r.build(ctx, name) })
		})
	}
	return group.Wait()
}

func (r *run) build(ctx context.Context, name string) error {
	return r.databases[name].with(ctx, func(conn *pgx.Conn) error {
		c, err := store.LoadControl(ctx, conn, r.cfg.migration())
		if err != nil || !c.Held {
			return err
		}
		r.events.emit(Event{Kind: EventKeys, Database: name})
		if f := r.cfg.Signals.Building; f != nil {
			f(name)
		}
		return leaveFast(ctx, conn, r.cfg.Layout, name)
	})
}
