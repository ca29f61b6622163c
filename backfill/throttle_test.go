package backfill_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// TestThrottle runs one after the other what would each need databases of its own.
func TestThrottle(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"PauseHoldsARunAndResumeLetsItGoOn", testPauseHoldsARunAndResumeLetsItGoOn},
		scenario{"CatchupThatLagsHoldsALiveRun", testCatchupThatLagsHoldsALiveRun},
		scenario{"HeldTicksDoNotHoldAFastRun", testHeldTicksDoNotHoldAFastRun},
		scenario{"WhatCannotBeMeasuredHolds", testWhatCannotBeMeasuredHolds},
		scenario{"WhatCatchupLacksIsLookedUp", testWhatCatchupLacksIsLookedUp},
		scenario{"RateIsKept", testRateIsKept},
		scenario{"ProgressGoesOnlyUp", testProgressGoesOnlyUp},
	)
}

func testPauseHoldsARunAndResumeLetsItGoOn(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	ctx := context.Background()
	must(t, backfill.SetPaused(ctx, f.conn, "m", true, "ann"))
	message := make(chan string, 10)
	cfg := f.live(2)
	cfg.Events = func(e backfill.Event) {
		if e.Kind == backfill.EventThrottled {
			message <- e.Message
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(ctx, cfg)
		done <- err
	}()
	if m := <-message; !strings.Contains(m, "ann") {
		t.Errorf("the reason %q does not name who paused", m)
	}
	if s := f.status(t); !s.Paused || s.RowsDone != 0 {
		t.Errorf("while paused: %+v", s)
	}
	must(t, backfill.SetPaused(ctx, f.conn, "m", false, "ann"))
	must(t, <-done)
	f.check(t)
}

func testCatchupThatLagsHoldsALiveRun(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.spec.Throttle.MaxCatchupLag = 10 * time.Millisecond
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_1 DEFAULT VALUES")
	message := make(chan string, 10)
	cfg := f.live(2)
	cfg.Events = func(e backfill.Event) {
		if e.Kind == backfill.EventThrottled {
			message <- e.Message
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(context.Background(), cfg)
		done <- err
	}()
	if m := <-message; !strings.Contains(m, "the limit is 10ms") {
		t.Errorf("the reason is %q", m)
	}
	f.tick(t)
	must(t, <-done)
	f.check(t)
}

func testHeldTicksDoNotHoldAFastRun(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.spec.Throttle.MaxCatchupLag = 10 * time.Millisecond
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_1 DEFAULT VALUES")
	f.run(t, f.fast(2))
	f.check(t)
}

func testWhatCannotBeMeasuredHolds(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	f.spec.Throttle.MaxCatchupLag = time.Minute
	f.source.Exec(t, "ALTER TABLE shardctl.m_log_1_0 RENAME TO away")
	cfg := f.live(2)
	held := make(chan string, 10)
	cfg.Events = func(e backfill.Event) {
		if e.Kind == backfill.EventThrottled {
			held <- e.Message
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(context.Background(), cfg)
		done <- err
	}()
	if m := <-held; !strings.Contains(m, "cannot be measured") {
		t.Errorf("the reason is %q", m)
	}
	f.source.Exec(t, "ALTER TABLE shardctl.away RENAME TO m_log_1_0")
	must(t, <-done)
	f.check(t)
}

// What catch-up lacks is asked every second for each database: while one of them is
// down the logs are large, and must not be read for it.
func testWhatCatchupLacksIsLookedUp(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(10))
	ctx := context.Background()
	const entries, gap = 100_000, 50_000
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_0 (xid) SELECT i::text::xid8 FROM generate_series(1, $1::int) i WHERE i <> $2::int", entries, gap)
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_1 (xid) SELECT i::text::xid8 FROM generate_series(1, $1::int) i WHERE i <> $2::int", entries, gap)
	for _, plan := range []string{"force_custom_plan", "force_generic_plan"} {
		conn := connect(t, f.source, "source")
		_, err := conn.Exec(ctx, "SET plan_cache_mode = "+plan)
		must(t, err)
		for _, c := range []struct {
			snapshot string
			pending  bool
		}{
			{"1:1:", true},
			{"100001:100001:", false},
			{"100000:100000:", true}, // its end itself
			{"99999:99999:", true},   // one beyond
			{"60000:100001:60000", true},
			{"100000:100005:100000,100002", true},
			{"50000:100001:50000", false}, // it was running, and wrote nothing
			{"50000:100010:50000,100003,100004", false},
			{"50000:100000:50000", true},
		} {
			_, err := conn.Exec(ctx, "BEGIN")
			must(t, err)
			pending, err := backfill.Pending(ctx, conn, f.l, c.snapshot)
			must(t, err)
			var covered bool
			const all = `SELECT bool_and(pg_visible_in_snapshot(xid, $1::text::pg_snapshot)) FROM (TABLE shardctl.m_log_1_0 UNION ALL TABLE shardctl.m_log_1_1) e`
			must(t, f.conn.QueryRow(ctx, all, c.snapshot).Scan(&covered))
			if pending != c.pending || pending == covered {
				t.Errorf("%s: beyond %s pending is %v, want %v, the server says %v", plan, c.snapshot, pending, c.pending, !covered)
			}
			var lookups, read int64
			const effort = `SELECT sum(idx_scan)::bigint, sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables WHERE relname LIKE 'm\_log\_%'`
			must(t, conn.QueryRow(ctx, effort).Scan(&lookups, &read))
			if lookups == 0 || read > 10 {
				t.Errorf("%s: beyond %s %d entries were read, with %d lookups", plan, c.snapshot, read, lookups)
			}
			_, err = conn.Exec(ctx, "ROLLBACK")
			must(t, err)
		}
	}
}

func testRateIsKept(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(1500))
	f.spec.Throttle.MaxRate = 1000
	started := time.Now()
	f.run(t, f.live(1))
	f.check(t)
	// The last chunk's debt need not be paid.
	if took := time.Since(started); took < time.Second {
		t.Errorf("1500 rows at 1000 a second took %s", took)
	}
}

func testProgressGoesOnlyUp(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	last, rounds := 0.0, 0
	for {
		ctx, cancel := context.WithCancel(context.Background())
		cfg := f.live(3)
		cfg.Workers = 1
		copied := 0
		cfg.Events = func(e backfill.Event) {
			if e.Kind == backfill.EventChunk {
				if copied++; copied == 2 {
					cancel() // each run copies two chunks and is stopped
				}
			}
		}
		res, _ := backfill.Run(ctx, cfg)
		cancel()
		s := f.status(t)
		if s.Percent < last || s.Percent > 95 && res.Phase != migrate.Backfilled && s.Percent != 95 {
			t.Fatalf("from %.1f to %.1f percent", last, s.Percent)
		}
		last = s.Percent
		if rounds++; res.Phase == migrate.Backfilled {
			break
		}
		if s.ETASeconds != nil && *s.ETASeconds < 0 {
			t.Fatalf("eta %v", *s.ETASeconds)
		}
		if rounds > 30 {
			t.Fatal("no end")
		}
	}
	if last != 100 || rounds < 3 {
		t.Errorf("%.1f percent after %d runs", last, rounds)
	}
	pgtest.Eventually(t, patience, func() bool { return f.status(t).RowsDone == 3000 })
}
