package backfill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/shardctl/shardctl/internal/rowstream"
)

// delivery is one reading of a chunk, on its way to the databases.
type delivery struct {
	worker   *worker
	job      job
	progress *progress
	rows     int64
	skipped  int64
	bytes    int64 // of parts already written
	alone    bool  // it has the leave to hold a very large row
}

// reserve waits for the leave to hold a very large row, which one worker of the
// process has at a time: a few rows of 100 MB at once would be the memory of the
// whole machine.
func (d *delivery) reserve(ctx context.Context) error {
	if d.alone {
		debug.FreeOSMemory() // of the one before
		return nil
	}
	select {
	case d.worker.run.large <- struct{}{}:
		d.alone = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives the leave back, and the memory at once: the collector would wait
// until there is as much again.
func (d *delivery) release() {
	if !d.alone {
		return
	}
	d.alone = false
	debug.FreeOSMemory()
	<-d.worker.run.large
}

// tuple puts a row where it goes; a full part is written while the source waits.
func (d *delivery) tuple(ctx context.Context, t rowstream.Tuple) error {
	route := d.job.route
	bin, err := route.bin(t)
	if err != nil {
		return fmt.Errorf("route a row of %s: %w", d.job.chunk, err)
	}
	d.rows++
	if d.alone && t.Size() < rowstream.LargeTuple {
		d.release() // the large row has gone
	}
	switch {
	case bin == refuseRow:
		return noKeyFailure(d.job.chunk)
	case bin == dropRow:
		if route.skips(t) {
			d.skipped++
		}
		return nil
	}
	if d.job.part.size > 0 && d.job.part.size+t.Size() > partBytes {
		if err := d.flush(ctx); err != nil {
			return err
		}
		d.bytes += int64(d.job.part.size)
		d.job.part.begin(route)
	}
	if t.Size() > partBytes {
		return d.single(ctx, bin, t)
	}
	d.job.part.add(bin, t, route.first())
	return nil
}

// single writes a large row on its own, from the buffer that it was read into.
func (d *delivery) single(ctx context.Context, bin int, t rowstream.Tuple) error {
	part := d.job.part
	part.borrow(bin, t.Tail(d.job.route.first()))
	err := d.flush(ctx)
	d.bytes += int64(part.size)
	part.begin(d.job.route)
	return err
}

// flush writes the part into every database that still lacks the chunk, at
// once. What one of them says does not stop the others: what they commit stays.
func (d *delivery) flush(ctx context.Context) error {
	lacking := d.progress.lacking()
	errs := make([]error, len(lacking))
	var wg sync.WaitGroup
	for i, database := range lacking {
		wg.Go(func() { errs[i] = d.write(ctx, database) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *delivery) write(ctx context.Context, database string) error {
	signals := d.worker.run.cfg.Signals
	signals.on(signals.Before, d.job.chunk, database)
	err := d.worker.writers[database].write(ctx, d.job)
	switch {
	case err == nil:
		d.worker.run.outages.over(database)
		if d.job.last {
			d.progress.add(&d.progress.done, database)
		}
		signals.on(signals.Committed, d.job.chunk, database)
		return nil
	case errors.Is(err, errAgain), errors.Is(err, errConflict), ctx.Err() != nil:
		return err
	}
	if err := d.worker.run.outages.note(database, err); err != nil {
		return fmt.Errorf("database %s: %w", database, err)
	}
	d.progress.add(&d.progress.failed, database)
	return nil
}
