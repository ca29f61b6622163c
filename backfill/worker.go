package backfill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/internal/sleep"
)

// worker copies one chunk at a time.
type worker struct {
	run     *run
	reader  *reader
	writers map[string]*writer
	part    part
}

func (w *worker) close(ctx context.Context) {
	w.reader.close(ctx)
	for _, writer := range w.writers {
		writer.close(ctx)
	}
}

// loop copies chunks until there is none left that a database of this run lacks.
func (w *worker) loop(ctx context.Context) error {
	for {
		if err := w.run.throttle.wait(ctx); err != nil {
			return err
		}
		err := w.next(ctx)
		if errors.Is(err, errNone) {
			return nil
		}
		if err = w.run.outages.judge(ctx, source, err); err != nil {
			return err
		}
	}
}

// next takes a chunk and copies it. An error is about the source or final; a
// database that failed only stays among the chunk's pending ones.
func (w *worker) next(ctx context.Context) error {
	databases, err := w.run.outages.reachable(ctx, w.run.cfg.Only)
	if err != nil {
		return err
	}
	replayed, err := w.reader.replayed(ctx)
	if err != nil {
		return err
	}
	c, err := w.run.queue.take(ctx, databases, replayed)
	if errors.Is(err, errNone) && len(databases) < len(w.run.cfg.Only) {
		return w.run.outages.pause(ctx) // what is left needs a database that is out of reach
	}
	if err != nil {
		return err
	}
	return w.chunk(ctx, c, databases)
}

// chunk copies a chunk to those of the databases that lack it, and hands it back.
func (w *worker) chunk(ctx context.Context, c Chunk, databases []string) error {
	p := progress{want: slices.DeleteFunc(slices.Clone(databases), func(d string) bool { return !slices.Contains(c.Pending, d) })}
	err := w.tries(ctx, &c, &p)
	back, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if giveErr := w.run.queue.give(back, c, p.done, p.rows, p.skipped); err == nil {
		err = giveErr
	}
	var gone rewritten
	switch {
	case errors.As(err, &gone):
		return w.run.replan(ctx)
	case errors.Is(err, errVoid), errors.Is(err, errAgain):
		return nil // replaced, or back in the queue for whoever takes it next
	case err == nil && len(p.lacking()) == 0 && len(p.failed) == 0:
		w.run.events.emit(Event{Kind: EventChunk, Table: c.Table.Name(), Chunk: c.No, Rows: p.rows})
	}
	return err
}

// progress is what became of a chunk so far.
type progress struct {
	want          []string
	rows, skipped int64

	mu           sync.Mutex
	done, failed []string // databases whose ledger has it, and that are out of reach
}

// lacking are the databases that it must still be written to.
func (p *progress) lacking() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.want), func(d string) bool {
		return slices.Contains(p.done, d) || slices.Contains(p.failed, d)
	})
}

func (p *progress) add(list *[]string, database string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, database)
}

// tries reads and writes a chunk until every wanted database has it or is out of
// reach. It is read again where the note became too old, and a little later where a row
// stands in the way that a tick takes away: unique indexes stand while a database is
// copied anew.
func (w *worker) tries(ctx context.Context, c *Chunk, p *progress) error {
	var err error
	for try := range chunkTries {
		if errors.Is(err, errConflict) {
			if err := sleep.For(ctx, time.Duration(try)*conflictWait); err != nil {
				return err
			}
		}
		if try > 0 {
			if err = w.again(ctx, c); err != nil {
				return err
			}
		}
		if err = w.attempt(ctx, *c, p); !errors.Is(err, errAgain) && !errors.Is(err, errConflict) {
			return err
		}
	}
	return err
}

// again prepares another reading: everything that a chunk relies on is learnt
// before its snapshot opens.
func (w *worker) again(ctx context.Context, c *Chunk) error {
	replayed, err := w.reader.replayed(ctx)
	if err != nil {
		return err
	}
	if err := w.run.learnGenerations(ctx); err != nil {
		return err
	}
	return w.run.queue.renote(ctx, c, replayed)
}

func (w *worker) attempt(ctx context.Context, c Chunk, p *progress) error {
	signals := w.run.cfg.Signals
	signals.at(signals.Noted, c)
	want := p.lacking()
	if len(want) == 0 {
		return nil
	}
	route, err := w.run.route(c.Table, want)
	if err != nil {
		return err
	}
	if err := w.reader.open(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := w.reader.snapshot(ctx, c, route); err != nil {
		return err
	}
	signals.at(signals.Opened, c)
	d := &delivery{worker: w, job: job{chunk: c, route: route, part: &w.part}, progress: p}
	w.part.begin(route)
	err = w.reader.copyOut(ctx, c, route, func(t rowstream.Tuple) error { return d.tuple(ctx, t) }, func() error { return d.reserve(ctx) })
	d.release()
	if err = errors.Join(err, w.reader.end(ctx)); err != nil {
		return err
	}
	open := time.Since(started)
	d.job.last, d.job.rows = true, d.rows
	bytes := d.bytes + int64(w.part.size)
	err = d.flush(ctx)
	p.rows, p.skipped = d.rows, d.skipped
	if err == nil {
		w.run.queue.sizes.learn(c, open, bytes)
		w.run.throttle.spend(d.rows)
	}
	return err
}
