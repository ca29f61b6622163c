package backfill_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// TestConcluding runs one after the other what would each need databases of its own.
func TestConcluding(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"ChunksLostWhileADatabaseIsFinishedAreCopiedAgain", testChunksLostWhileADatabaseIsFinishedAreCopiedAgain},
		scenario{"ChunksLostWhileAnotherIsFinishedAreCopiedAgain", testChunksLostWhileAnotherIsFinishedAreCopiedAgain},
		scenario{"KeysLostWhileATickIsAwaitedAreBuiltAgain", testKeysLostWhileATickIsAwaitedAreBuiltAgain},
		scenario{"ADatabaseThatLosesChunksEachTimeEndsTheRun", testADatabaseThatLosesChunksEachTimeEndsTheRun},
		scenario{"ADatabaseThatLostChunksIsFinishedAgain", testADatabaseThatLostChunksIsFinishedAgain},
	)
}

// failOver leaves a database as a standby that lacked the last chunk would be.
func (f *fixture) failOver(t testing.TB, database string) {
	t.Helper()
	last := f.source.Value(t, "SELECT min(b.id) FROM block b, (SELECT max(from_page) FROM shardctl.chunk) c(page) WHERE b.ctid >= format('(%s,0)', c.page)::tid")
	db := f.databases[database]
	db.Exec(t, "DELETE FROM app.block WHERE id >= $1::text::bigint", last)
	db.Exec(t, "DELETE FROM shardctl.ledger WHERE chunk = (SELECT max(chunk) FROM shardctl.ledger)")
	db.EndSessions(t, "datname = current_database() AND application_name LIKE 'shardctl backfill%'")
}

// finishing calls a function for each database that is finished, with how often it was.
type finishing struct {
	each func(database string, times int) error

	mu    sync.Mutex
	times map[string]int
}

func (x *finishing) Finish(_ context.Context, database string) error {
	x.mu.Lock()
	if x.times == nil {
		x.times = map[string]int{}
	}
	x.times[database]++
	times := x.times[database]
	x.mu.Unlock()
	return x.each(database, times)
}

// whole checks that nothing lacks anywhere.
func (f *fixture) whole(t testing.TB, res backfill.Result) {
	t.Helper()
	f.check(t)
	if res.Phase != migrate.Backfilled {
		t.Errorf("the phase is %s", res.Phase)
	}
	for d, db := range f.databases {
		lacks, err := backfill.Lacking(context.Background(), f.conn, connect(t, db, d), "m", d)
		must(t, err)
		if lacks != "" {
			t.Errorf("%s: %s", d, lacks)
		}
	}
}

func testChunksLostWhileADatabaseIsFinishedAreCopiedAgain(t *testing.T, p *pool) {
	for name, says := range map[string]error{
		"nobody sees it":            nil,
		"a foreign key misses rows": errors.New("a foreign key is violated"),
	} {
		t.Run(name, func(t *testing.T) {
			f := p.fixture(t, blocks(2000))
			cfg := f.live(3)
			fin := &finishing{each: func(database string, times int) error {
				if database != "db1" || times > 1 {
					return nil
				}
				f.failOver(t, database)
				return says
			}}
			cfg.Finisher = fin
			var lost []string
			cfg.Events = func(e backfill.Event) {
				if e.Kind == backfill.EventLost {
					lost = append(lost, e.Database)
				}
			}
			f.whole(t, f.run(t, cfg))
			if fin.times["db0"] != 1 || fin.times["db1"] != 2 || !slices.Equal(lost, []string{"db1"}) {
				t.Errorf("finished %v times, lost by %v", fin.times, lost)
			}
		})
	}
}

func testChunksLostWhileAnotherIsFinishedAreCopiedAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(3)
	fin := &finishing{each: func(database string, _ int) error {
		if database == "db1" {
			pgtest.Eventually(t, patience, func() bool {
				return f.source.Value(t, "SELECT count(finished_at) FROM shardctl.backfill_mode WHERE database = 'db0'") == "1"
			})
			f.failOver(t, "db0")
		}
		return nil
	}}
	cfg.Finisher = fin
	f.whole(t, f.run(t, cfg))
	if fin.times["db0"] != 2 || fin.times["db1"] != 1 {
		t.Errorf("finished %v times", fin.times)
	}
}

// A standby that is still further behind has no primary keys, and its ticks wait: none
// would ever come.
func testKeysLostWhileATickIsAwaitedAreBuiltAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_0 DEFAULT VALUES") // an entry that no tick has seen
	cfg := f.fast(3)
	fin := &finishing{each: func(string, int) error { return nil }}
	cfg.Finisher = fin
	var once sync.Once
	failed := make(chan struct{})
	cfg.Events = func(e backfill.Event) {
		if e.Kind != backfill.EventWaiting || e.Database != "db1" {
			return
		}
		once.Do(func() {
			f.databases["db1"].Exec(t, `INSERT INTO shardctl.dropped_key SELECT 'm', 1, 'app.block', conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'app.block'::regclass AND contype = 'p';
				ALTER TABLE app.block DROP CONSTRAINT block_pkey; UPDATE shardctl.control SET held = true`)
			f.failOver(t, "db1")
			close(failed)
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan error, 1)
	var res backfill.Result
	go func() {
		var err error
		res, err = backfill.Run(ctx, cfg)
		done <- err
	}()
	select {
	case <-failed:
	case err := <-done:
		t.Fatalf("it ended before db1 waited for a tick: %v", err)
	}
	pgtest.Eventually(t, patience, func() bool { return f.databases["db1"].Value(t, "SELECT held FROM shardctl.control") == "f" })
	f.tick(t)
	must(t, <-done)
	f.whole(t, res)
	f.keysAreThere(t)
	if fin.times["db1"] != 1 {
		t.Errorf("finished %v times, half a copy too", fin.times)
	}
}

func testADatabaseThatLosesChunksEachTimeEndsTheRun(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(3)
	fin := &finishing{each: func(database string, _ int) error {
		if database == "db1" {
			f.failOver(t, database)
		}
		return nil
	}}
	cfg.Finisher = fin
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := backfill.Run(ctx, cfg)
	refusal(t, err, "backfill.lost")
	if !strings.Contains(err.Error(), "db1") || strings.Contains(err.Error(), "db0") || migrate.ExitCode(err) != migrate.ExitError {
		t.Errorf("exit %d, %v", migrate.ExitCode(err), err)
	}
	if fin.times["db1"] != 3 || fin.times["db0"] != 1 {
		t.Errorf("finished %v times", fin.times)
	}
	if phase := f.source.Value(t, "SELECT phase FROM shardctl.migration"); phase != "backfilling" {
		t.Errorf("the phase is %s", phase)
	}
	unfinished, err := backfill.Unfinished(ctx, f.conn, "m")
	must(t, err)
	if !slices.Equal(unfinished, []string{"db1"}) {
		t.Errorf("%v are not finished", unfinished)
	}
	f.whole(t, f.run(t, f.live(3)))
}

// With its chunks a database may have lost what followed them. A run that is stopped
// when they are copied again must not leave it as finished.
func testADatabaseThatLostChunksIsFinishedAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.whole(t, f.run(t, f.live(3)))
	f.failOver(t, "db1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := f.live(3)
	cfg.OnCommitted(func(backfill.Chunk, string) { cancel() })
	if _, err := backfill.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run ended with %v", err)
	}
	missing, err := backfill.Missing(context.Background(), f.conn, connect(t, f.databases["db1"], "db1"), "m")
	must(t, err)
	if missing > 0 {
		t.Fatalf("%d chunks are missing", missing)
	}
	var finished atomic.Int32
	cfg = f.live(3)
	cfg.Finisher = &finishing{each: func(string, int) error { finished.Add(1); return nil }}
	res := f.run(t, cfg)
	f.whole(t, res)
	if res.NothingToDo || finished.Load() == 0 {
		t.Error("it was not finished again")
	}
}
