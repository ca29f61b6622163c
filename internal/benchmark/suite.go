package main

import (
	"context"
	"fmt"
	"slices"
)

// blockOnly is the spec's tables of the measures that copy one table.
const blockOnly = "  - {name: public.block, key: workspace_id}\n"

// mainSuite measures the copy, catch-up, capture and verification.
func mainSuite(ctx context.Context, o options) error {
	return within(ctx, o, 4, func(w *world) error { return w.measures(ctx) })
}

func (w *world) measures(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	if err := w.writeSpec(shape{shards: 16, schema: "app", tables: blockOnly}); err != nil {
		return err
	}
	for _, part := range []struct {
		names []string
		run   func(context.Context) error
	}{
		{[]string{"backfill_live_vs_pipes", "backfill_fast_vs_pipes", "backfill_fast_vs_pgcopydb", "backfill_fast_vs_native", "backfill_source_cpu"}, w.backfills},
		{[]string{"verify_vs_digests", "verify_source_pages"}, w.verifications},
		{[]string{"catchup_vs_logical"}, w.drains},
		{[]string{"catchup_under_load"}, w.underLoad},
		{[]string{"capture_cost", "capture_cost_bulk"}, w.capture},
	} {
		if !slices.ContainsFunc(part.names, w.o.wants) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.names[0], err)
		}
	}
	return w.memory()
}

// memory prints the largest resident set of each command so far.
func (w *world) memory() error {
	const limit = 64 << 20
	for _, name := range []string{"backfill", "catchup", "verify"} {
		if peak := w.shardctl.peak[name]; peak > 0 && w.o.wants("rss") {
			m := measure{Name: "rss_" + name, Ours: float64(peak), Reference: limit, Ratio: round(float64(peak) / limit), Target: 1, Rounds: 1, Unit: "bytes"}
			if err := m.print(); err != nil {
				return err
			}
		}
	}
	return nil
}

// backfilled prepares a migration, copies, and leaves it backfilled, for the measures that
// begin there. It does nothing where one stands.
func (w *world) backfilled(ctx context.Context) error {
	var s struct{ Phase string }
	if err := w.shardctl.read(ctx, &s, "status"); err == nil && s.Phase == "backfilled" {
		return nil
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	say("copy for what follows")
	_, err := w.copyOnce(ctx, "fast")
	return err
}

// whole fails unless the databases have as many rows as the source.
func (w *world) whole(ctx context.Context, database, table string) error {
	want, err := value(ctx, w.source.DSN(appName), "SELECT count(*) FROM block")
	if err != nil {
		return err
	}
	var got float64
	for _, c := range w.targets {
		n, err := value(ctx, c.DSN(database), "SELECT count(*) FROM "+table)
		if err != nil {
			return err
		}
		got += n
	}
	if got != want {
		return fmt.Errorf("%.0f of %.0f rows arrived", got, want)
	}
	return nil
}
