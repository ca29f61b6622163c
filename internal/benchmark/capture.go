package main

import (
	"context"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/sleep"
)

const (
	captureRounds = 8
	captureWrites = 40_000
	bulkRows      = 100_000
)

// capture measures what the trigger costs the source: CPU of a single-row transaction
// with it and without, in turns. Two runs without it show what the machine's noise is:
// their ratio is in the detail, and over 3 % the measure says nothing.
func (w *world) capture(ctx context.Context) error {
	if err := w.backfilled(ctx); err != nil {
		return err
	}
	var with, without, again samples
	for range max(captureRounds, w.o.rounds) {
		for _, side := range []struct {
			enabled bool
			into    *samples
		}{{false, &without}, {true, &with}, {false, &again}} {
			if err := w.captureIs(ctx, side.enabled); err != nil {
				return err
			}
			used, err := w.cpuOf(ctx, func() error {
				_, err := w.pgbench(ctx, "-t", strconv.Itoa(captureWrites/8))
				return err
			})
			if err != nil {
				return err
			}
			*side.into = append(*side.into, used.Seconds()*1e6/captureWrites)
		}
		i := len(with) - 1
		say("  without %.0f µs, with %.0f µs, without %.0f µs", without[i], with[i], again[i])
	}
	m := compare("capture_cost", 1.2, "µs of the source's CPU", with, without)
	m.Detail["a_a"], m.Detail["again"] = round(again.median()/without.median()), rounded(again)
	if err := m.print(); err != nil {
		return err
	}
	return w.bulk(ctx)
}

// bulk measures one statement that changes many rows.
func (w *world) bulk(ctx context.Context) error {
	var with, without samples
	for range w.o.rounds {
		for _, side := range []struct {
			enabled bool
			into    *samples
		}{{false, &without}, {true, &with}} {
			if err := w.captureIs(ctx, side.enabled); err != nil {
				return err
			}
			used, err := w.cpuOf(ctx, func() error {
				return runSQL(ctx, w.source.DSN(appName), "UPDATE block SET version = version + 1 WHERE id IN (SELECT md5('block' || g)::uuid FROM generate_series(1, "+strconv.Itoa(min(bulkRows, w.o.rows))+") g)")
			})
			if err != nil {
				return err
			}
			side.into.add(used)
		}
	}
	return compare("capture_cost_bulk", 0, "s of the source's CPU", with, without).print()
}

// captureIs turns the trigger on or off: one that is off costs nothing.
func (w *world) captureIs(ctx context.Context, enabled bool) error {
	how := "DISABLE TRIGGER"
	if enabled {
		how = "ENABLE ALWAYS TRIGGER"
	}
	return runSQL(ctx, w.source.DSN(appName), "ALTER TABLE block "+how+" shardctl_bench_capture", "VACUUM block", "CHECKPOINT")
}

// cpuOf is the CPU that the source uses for something, what follows a commit included.
func (w *world) cpuOf(ctx context.Context, do func() error) (time.Duration, error) {
	before, err := localpg.ServerCPU(w.source.PID())
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	if err := sleep.For(ctx, 500*time.Millisecond); err != nil { // the WAL and the checkpointer
		return 0, err
	}
	after, err := localpg.ServerCPU(w.source.PID())
	return after - before, err
}
