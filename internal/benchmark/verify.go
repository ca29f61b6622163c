package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// digestSQL sums two hashes of each row, 128 bits together. What the server's hash of a
// type does not tell apart goes through text, as a verification has to.
const digestSQL = `SELECT count(*)::text || sum(hash_record_extended(r, 0))::text || sum(hash_record_extended(r, 1))::text
FROM (SELECT ROW(id, workspace_id, parent_id, kind, properties::text, content, alive, version, created_at, updated_at) FROM %s) x(r)`

// verifications measures a full pass beside digests of both sides by plain SQL, and how
// much of the source it reads.
func (w *world) verifications(ctx context.Context) error {
	if err := w.backfilled(ctx); err != nil {
		return err
	}
	var ours, plain, read samples
	pages, err := value(ctx, w.source.DSN(appName), "SELECT (pg_relation_size('block') / current_setting('block_size')::int)::float8")
	if err != nil {
		return err
	}
	for range w.o.rounds {
		d, err := w.digests(ctx)
		if err != nil {
			return err
		}
		plain.add(d)
		before, err := w.pagesRead(ctx)
		if err != nil {
			return err
		}
		if d, err = w.verified(ctx); err != nil {
			return err
		}
		ours.add(d)
		after, err := w.pagesRead(ctx)
		if err != nil {
			return err
		}
		read = append(read, after-before)
		say("  digests %.2f s, verify %.2f s, %.2f of the source's pages", plain[len(plain)-1], d.Seconds(), (after-before)/pages)
	}
	for _, m := range []measure{
		compare("verify_vs_digests", 1.5, "s", ours, plain),
		compare("verify_source_pages", 1.2, "pages", read, samples{pages}),
	} {
		if err := m.print(); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) verified(ctx context.Context) (time.Duration, error) {
	catchup, err := w.shardctl.start(ctx, "catchup")
	if err != nil {
		return 0, err
	}
	d, err := w.shardctl.run(ctx, "verify")
	if stopped := catchup.stop(); err == nil {
		err = stopped
	}
	return d, err
}

func (w *world) pagesRead(ctx context.Context) (float64, error) {
	return value(ctx, w.source.DSN(appName), "SELECT (heap_blks_read + heap_blks_hit)::float8 FROM pg_statio_user_tables, pg_stat_force_next_flush() WHERE relname = 'block'")
}

// digests runs the digests of all sides at once.
func (w *world) digests(ctx context.Context) (time.Duration, error) {
	started := time.Now()
	var g errgroup.Group
	g.Go(func() error { return runSQL(ctx, w.source.DSN(appName), fmt.Sprintf(digestSQL, "public.block")) })
	for _, c := range w.targets {
		g.Go(func() error { return runSQL(ctx, c.DSN(appName), fmt.Sprintf(digestSQL, "app.block")) })
	}
	err := g.Wait()
	return time.Since(started), err
}
