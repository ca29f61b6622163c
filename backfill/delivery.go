package backfill

import (
	"context"
	"errors"
	"fmt"
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
}

// tuple puts a row where it goes; a full part is written while the source waits.
func (d *delivery) tuple(ctx context.Context, t rowstream.Tuple) error {
	route := d.job.route
	bin, err := route.bin(t)
	if err != nil {
		return fmt.Errorf("route a row of %s: %w", d.job.chunk, err)
	}
	d.rows++
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
	d.job.part.add(bin, t, route.first())
	return nil
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
	signals := d.worker.run.cfg.signals
	signals.on(signals.before, d.job.chunk, database)
	err := d.worker.writers[database].write(ctx, d.job)
	switch {
	case err == nil:
		d.worker.run.outages.over(database)
		if d.job.last {
			d.progress.add(&d.progress.done, database)
		}
		signals.on(signals.committed, d.job.chunk, database)
		return nil
	case errors.Is(err, errAgain), ctx.Err() != nil:
		return err
	}
	if err := d.worker.run.outages.note(database, err); err != nil {
		return fmt.Errorf("database %s: %w", database, err)
	}
	d.progress.add(&d.progress.failed, database)
	return nil
}
