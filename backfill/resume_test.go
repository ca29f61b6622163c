package backfill_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// TestResuming runs one after the other what would each need databases of its own.
func TestResuming(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"AStoppedRunGoesOnWhereItWas", testAStoppedRunGoesOnWhereItWas},
		scenario{"AChunkOfADeadProcessIsTakenOver", testAChunkOfADeadProcessIsTakenOver},
		scenario{"AChunkWithoutAHeartbeatIsTakenOver", testAChunkWithoutAHeartbeatIsTakenOver},
		scenario{"SessionsThatAreEndedAreOpenedAgain", testSessionsThatAreEndedAreOpenedAgain},
		scenario{"TwoProcessesShareTheWork", testTwoProcessesShareTheWork},
		scenario{"WhatADatabaseLostIsCopiedAgain", testWhatADatabaseLostIsCopiedAgain},
		scenario{"DatabasesOneAfterTheOther", testDatabasesOneAfterTheOther},
		scenario{"PhasesAndOwnersAreRespected", testPhasesAndOwnersAreRespected},
		scenario{"WhatFollowsTheCopyWaitsForATick", testWhatFollowsTheCopyWaitsForATick},
	)
}

const ledger = "SELECT plan, table_no, chunk, at FROM shardctl.ledger ORDER BY 1, 2, 3"

func testAStoppedRunGoesOnWhereItWas(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := f.live(2)
	cfg.OnOpened(func(c backfill.Chunk) {
		if c.No == 5 {
			cancel() // with a snapshot open
		}
	})
	if _, err := backfill.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run ended with %v", err)
	}
	before := f.databases["db0"].Rows(t, ledger)
	if len(before) == 0 {
		t.Fatal("nothing was copied before the stop")
	}
	f.run(t, f.live(2))
	f.check(t)
	after := f.databases["db0"].Rows(t, ledger)
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("chunk %s was copied again", line)
		}
	}
}

// killed leaves a chunk in the hands of a process that is gone.
func killed(t *testing.T, f *fixture, backend string) {
	t.Helper()
	cfg := f.live(2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg.OnOpened(func(c backfill.Chunk) {
		if c.No == 3 {
			cancel()
		}
	})
	if _, err := backfill.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run ended with %v", err)
	}
	f.source.Exec(t, `UPDATE shardctl.chunk SET state = 'copying', worker = 'gone', heartbeat_at = clock_timestamp(), `+backend+` WHERE state = 'todo'`)
	if n := f.source.Value(t, "SELECT count(*) FROM shardctl.chunk WHERE worker = 'gone'"); n == "0" {
		t.Fatal("no chunk was left behind")
	}
}

func testAChunkOfADeadProcessIsTakenOver(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	killed(t, f, "backend_pid = 1, backend_start = now()")
	started := time.Now()
	f.run(t, f.live(2))
	f.check(t)
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("it waited %s, as if for a heartbeat to become old", took)
	}
}

func testAChunkWithoutAHeartbeatIsTakenOver(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	session := f.source.Connect(t)
	var pid string
	must(t, session.QueryRow(context.Background(), "SELECT pg_backend_pid()::text").Scan(&pid))
	live := "backend_pid = " + pid + ", backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = " + pid + ")"
	killed(t, f, live)

	// While it beats it is left alone.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(ctx, f.live(2))
		done <- err
	}()
	pgtest.Eventually(t, patience, func() bool {
		return f.source.Value(t, "SELECT count(*) FILTER (WHERE worker IS DISTINCT FROM 'gone' AND state <> 'done') + count(*) FILTER (WHERE next_page IS NOT NULL) FROM shardctl.chunk FULL JOIN shardctl.backfill_plan p USING (migration, plan)") == "0"
	})
	cancel()
	<-done
	if n := f.source.Value(t, "SELECT count(*) FROM shardctl.chunk WHERE worker = 'gone'"); n == "0" {
		t.Error("a chunk with a heartbeat was taken over")
	}

	f.source.Exec(t, "UPDATE shardctl.chunk SET heartbeat_at = clock_timestamp() - interval '16 s' WHERE worker = 'gone'")
	f.run(t, f.live(2))
	f.check(t)
}

func testSessionsThatAreEndedAreOpenedAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	cfg := f.live(2)
	const ours = "datname = current_database() AND application_name LIKE 'shardctl backfill%'"
	var ended atomic.Int32
	cfg.OnBefore(atChunk(3, func(backfill.Chunk, string) {
		f.source.EndSessions(t, ours)
		ended.Add(1)
	}))
	cfg.OnJudged(atChunk(4, func(_ backfill.Chunk, d string) {
		f.databases[d].EndSessions(t, ours)
		ended.Add(1)
	}))
	f.run(t, cfg)
	f.check(t)
	if ended.Load() != 2 {
		t.Errorf("sessions were ended %d times", ended.Load())
	}
}

func testTwoProcessesShareTheWork(t *testing.T, p *pool) {
	for _, mode := range []backfill.Mode{backfill.Live, backfill.Fast} {
		t.Run(string(mode), func(t *testing.T) {
			f := p.fixture(t, blocks(4000))
			var wg sync.WaitGroup
			errs := make([]error, 2)
			var chunks [2]atomic.Int32
			var began [2]chan struct{}
			for i := range began {
				began[i] = make(chan struct{})
			}
			for i := range errs {
				cfg := f.live(1)
				cfg.Mode = mode
				cfg.Events = func(e backfill.Event) {
					if e.Kind == backfill.EventChunk && chunks[i].Add(1) == 1 {
						close(began[i]) // the first to begin leaves work for the other
						select {
						case <-began[1-i]:
						case <-time.After(time.Minute):
						}
					}
				}
				wg.Go(func() { _, errs[i] = backfill.Run(context.Background(), cfg) })
			}
			wg.Wait()
			must(t, errors.Join(errs...))
			f.check(t)
			f.keysAreThere(t)
			all := f.source.Value(t, "SELECT count(*) FROM shardctl.chunk WHERE state = 'done'")
			for d, db := range f.databases {
				if n := db.Value(t, "SELECT count(*) FROM shardctl.ledger"); n != all {
					t.Errorf("%s has %s of %s chunks", d, n, all)
				}
			}
			if chunks[0].Load() == 0 || chunks[1].Load() == 0 {
				t.Errorf("the work was shared %d to %d", chunks[0].Load(), chunks[1].Load())
			}
		})
	}
}

func testWhatADatabaseLostIsCopiedAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.run(t, f.live(3))
	f.databases["db1"].Exec(t, "DELETE FROM shardctl.ledger WHERE chunk = 2")
	f.databases["db1"].Exec(t, "DELETE FROM app.block WHERE id BETWEEN 400 AND 700")
	ctx := context.Background()
	missing, err := backfill.Missing(ctx, f.conn, connect(t, f.databases["db1"], "db1"), "m")
	must(t, err)
	if missing != 1 {
		t.Errorf("%d chunks are missing", missing)
	}
	f.databases["db1"].Exec(t, "DELETE FROM shardctl.ledger")
	f.databases["db0"].Exec(t, "CREATE TABLE witness AS SELECT chunk, at FROM shardctl.ledger")
	if res := f.run(t, f.config()); res.NothingToDo {
		t.Error("nothing to do")
	}
	f.check(t)
	if n := f.databases["db0"].Value(t, "SELECT count(*) FROM witness JOIN shardctl.ledger USING (chunk, at)"); n != f.databases["db0"].Value(t, "SELECT count(*) FROM witness") {
		t.Error("the other database was copied to again")
	}
}

func testDatabasesOneAfterTheOther(t *testing.T, p *pool) {
	f := p.fixture(t, family(""))
	cfg := f.live(2)
	cfg.Only = []string{"db1"}
	if res := f.run(t, cfg); res.Phase != migrate.Backfilling {
		t.Errorf("with one database copied the phase is %s", res.Phase)
	}
	if n := f.databases["db0"].Value(t, "SELECT count(*) FROM shardctl.ledger"); n != "0" {
		t.Errorf("a database that was not asked for has %s chunks", n)
	}
	cfg = f.live(2)
	cfg.Only = []string{"db0", "db2"}
	if res := f.run(t, cfg); res.Phase != migrate.Backfilled {
		t.Errorf("with all copied the phase is %s", res.Phase)
	}
	f.check(t)
}

func testPhasesAndOwnersAreRespected(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(100))
	for phase, code := range map[migrate.Phase]string{migrate.New: "phase.order", migrate.Prepared: "phase.order", migrate.Completed: "phase.order"} {
		f.source.Exec(t, "UPDATE shardctl.migration SET phase = $1", string(phase))
		_, err := backfill.Run(context.Background(), f.config())
		refusal(t, err, code)
	}
	f.source.Exec(t, "UPDATE shardctl.migration SET phase = 'installed'")
	f.databases["db1"].Exec(t, "UPDATE shardctl.control SET owner = 'db1'")
	_, err := backfill.Run(context.Background(), f.config())
	refusal(t, err, "backfill.owned")
}

// finisher records what it was called for.
type finisher struct {
	mu    sync.Mutex
	calls []string
}

func (x *finisher) Finish(_ context.Context, database string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls = append(x.calls, database)
	return nil
}

func testWhatFollowsTheCopyWaitsForATick(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	fin := &finisher{}
	cfg := f.live(5)
	cfg.Finisher = fin
	waiting := make(chan struct{}, 2)
	cfg.Events = func(e backfill.Event) {
		if e.Kind == backfill.EventWaiting {
			waiting <- struct{}{}
		}
	}
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_0 DEFAULT VALUES") // an entry that no tick has seen
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(context.Background(), cfg)
		done <- err
	}()
	<-waiting
	<-waiting
	if len(fin.calls) > 0 {
		t.Errorf("finished before a tick: %v", fin.calls)
	}
	if s := f.status(t); s.Percent >= 100 || s.Tables[0].State != "copied" {
		t.Errorf("while indexes lack: %+v", s)
	}
	f.tick(t)
	must(t, <-done)
	slices.Sort(fin.calls)
	if want := []string{"db0", "db1"}; !slices.Equal(fin.calls, want) {
		t.Errorf("calls %v, want %v", fin.calls, want)
	}
	if s := f.status(t); s.Percent != 100 || s.Tables[0].State != "done" {
		t.Errorf("at the end: %+v", s)
	}
}

func (f *fixture) status(t *testing.T) backfill.Status {
	t.Helper()
	s, err := backfill.ReadStatus(context.Background(), f.conn, f.spec)
	must(t, err)
	return s
}
