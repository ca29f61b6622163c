package backfill

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/sleep"
)

// copy runs the workers until the queue has nothing for them.
func (r *run) copy(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	side, stop := context.WithCancel(ctx)
	r.throttle.look(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.throttle.poll(side) })
	others.Go(func() { r.beats(side) })
	group.Go(func() error { return r.relieve(side) })
	var workers errgroup.Group
	for range r.cfg.Workers {
		workers.Go(func() error {
			w := r.newWorker()
			defer w.close(ctx)
			return w.loop(ctx)
		})
	}
	group.Go(func() error {
		defer stop()
		return workers.Wait()
	})
	err := group.Wait()
	stop()
	others.Wait()
	return err
}

func (r *run) newWorker() *worker {
	w := &worker{run: r, reader: &reader{target: r.cfg.Source, version: r.cfg.Signals.Version}, writers: map[string]*writer{}}
	if r.replica != nil {
		w.reader.target, w.reader.replica = *r.cfg.Read, r.replica
	}
	for _, d := range r.cfg.Databases {
		w.writers[d.Name] = &writer{target: d, migration: r.cfg.migration(), generation: r.generation, signals: r.cfg.Signals}
	}
	return w
}

// beats keeps this process's chunks its own.
func (r *run) beats(ctx context.Context) {
	for sleep.For(ctx, heartbeatEvery) == nil {
		_ = r.queue.beat(ctx) // a beat that fails is as good as a source that is down: workers see that
	}
}

// route gives how a table's rows go to some databases.
func (r *run) route(t *layout.Table, databases []string) (*route, error) {
	key := fmt.Sprint(t.No, databases)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.routes[key]; known != nil {
		return known, nil
	}
	made, err := newRoute(r.cfg.Layout, t, databases, r.encoding)
	if err != nil {
		return nil, fmt.Errorf("route %s: %w", t.Name(), err)
	}
	r.routes[key] = made
	return made, nil
}
