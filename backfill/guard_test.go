package backfill_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// TestGuards runs what shows that a guard is there.
func TestGuards(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"AChunksTransactionHoldsItsLocks", testAChunksTransactionHoldsItsLocks},
		scenario{"ATableIsNotRewrittenUnderASnapshot", testATableIsNotRewrittenUnderASnapshot},
		scenario{"TheNoteIsCommittedBeforeTheSnapshot", testTheNoteIsCommittedBeforeTheSnapshot},
		scenario{"ALateWorkerFindsTheLedgerLine", testALateWorkerFindsTheLedgerLine},
		scenario{"AnOwnerThatChangesMeanwhileStopsAChunk", testAnOwnerThatChangesMeanwhileStopsAChunk},
		scenario{"ADatabaseOutOfReachHoldsUpOnlyItself", testADatabaseOutOfReachHoldsUpOnlyItself},
		scenario{"AServerThatStaysAwayEndsTheRun", testAServerThatStaysAwayEndsTheRun},
	)
}

// refusedLock reports whether what f locks is held by somebody else.
func refusedLock(t *testing.T, db *pgtest.Database, f func(context.Context, pgx.Tx) error) bool {
	t.Helper()
	ctx := context.Background()
	conn := connect(t, db, "guard")
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '30ms'"); err != nil {
			return err
		}
		return f(ctx, tx)
	})
	if err != nil && postgres.SQLState(err) != "55P03" {
		t.Errorf("lock: %v", err)
	}
	return err != nil
}

func testAChunksTransactionHoldsItsLocks(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	var looked atomic.Int32
	cfg.OnJudged(func(_ backfill.Chunk, d string) {
		db := f.databases[d]
		looked.Add(1)
		for what, lock := range map[string]func(context.Context, pgx.Tx) error{
			"a fence could change": func(ctx context.Context, tx pgx.Tx) error { _, err := store.ChangeControl(ctx, tx, "m"); return err },
			"a tick could run":     func(ctx context.Context, tx pgx.Tx) error { return store.LockTableExclusive(ctx, tx, "m", 1) },
			"tombstones could be pruned": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT FROM shardctl.pruned WHERE migration = 'm' AND table_no = 1 FOR UPDATE NOWAIT")
				return err
			},
		} {
			if !refusedLock(t, db, lock) {
				t.Errorf("while a chunk is written to %s, %s", d, what)
			}
		}
	})
	f.run(t, cfg)
	f.check(t)
	if looked.Load() != 2 {
		t.Errorf("looked %d times", looked.Load())
	}
}

func testATableIsNotRewrittenUnderASnapshot(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	cfg.OnOpened(func(backfill.Chunk) {
		locked := refusedLock(t, f.source, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "TRUNCATE public.block")
			return err
		})
		if !locked {
			t.Error("a table could be truncated while its chunk was read")
		}
	})
	f.run(t, cfg)
	f.check(t)
}

func testTheNoteIsCommittedBeforeTheSnapshot(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	f.tick(t)
	cfg := f.live(1000)
	cfg.OnNoted(func(c backfill.Chunk) {
		if note := f.source.Value(t, "SELECT note FROM shardctl.chunk WHERE state = 'copying'"); note != "1" || c.Note != 1 {
			t.Errorf("the note is %s in the queue, %d in the chunk", note, c.Note)
		}
		f.source.Exec(t, "DELETE FROM block WHERE id = 1") // seen by a snapshot that opens later
	})
	cfg.OnBefore(func(backfill.Chunk, string) {
		for d, db := range f.databases {
			if n := db.Value(t, "SELECT count(*) FROM app.block WHERE id = 1"); n != "0" {
				t.Errorf("%s has a row that the snapshot cannot see", d)
			}
		}
	})
	f.run(t, cfg)
	f.check(t) // without a tick
}

// A worker that was stopped wakes up after another has taken its chunk over and
// finished it.
func testALateWorkerFindsTheLedgerLine(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	late := f.live(1000)
	late.Workers = 1
	asleep, awake := make(chan struct{}), make(chan struct{})
	var written atomic.Int32
	late.OnBefore(func(_ backfill.Chunk, d string) {
		if d == "db0" {
			close(asleep)
			<-awake
		}
	})
	late.OnJudged(func(backfill.Chunk, string) { written.Add(1) })
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(context.Background(), late)
		done <- err
	}()
	<-asleep
	pgtest.Eventually(t, patience, func() bool { return written.Load() == 1 }) // the other database
	f.source.Exec(t, "UPDATE shardctl.chunk SET heartbeat_at = clock_timestamp() - interval '1 h', worker = 'stopped'")
	f.run(t, f.live(1000))
	f.source.Exec(t, "DELETE FROM block WHERE id <= 100")
	f.tick(t, ids(1, 100)...)
	for _, db := range f.databases {
		db.Exec(t, "DELETE FROM shardctl.m_tomb_1") // as if the ledger line were the only guard
	}
	close(awake)
	must(t, <-done)
	f.check(t)
	if written.Load() != 1 {
		t.Errorf("the late worker wrote %d times", written.Load())
	}
}

func testAnOwnerThatChangesMeanwhileStopsAChunk(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	cfg.OnBefore(first(func(_ backfill.Chunk, d string) {
		f.databases[d].Exec(t, "UPDATE shardctl.control SET owner = database")
	}))
	_, err := backfill.Run(context.Background(), cfg)
	refusal(t, err, "backfill.owned")
	for d, db := range f.databases {
		if got := db.Value(t, "SELECT owner = 'source' OR NOT EXISTS (SELECT FROM app.block) FROM shardctl.control"); got != "t" {
			t.Errorf("%s has rows that were copied while it owned them", d)
		}
	}
}

func testADatabaseOutOfReachHoldsUpOnlyItself(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	cfg := f.live(2)
	cfg.MaxOutage = time.Minute
	var failures atomic.Int32
	cfg.OnJudged(func(_ backfill.Chunk, d string) {
		if d == "db1" && failures.Add(1) <= 3 {
			f.databases[d].EndSessions(t, "datname = current_database() AND application_name = 'shardctl backfill'")
		}
	})
	f.run(t, cfg)
	f.check(t)
	if failures.Load() < 3 {
		t.Errorf("it failed %d times", failures.Load())
	}
}

func testAServerThatStaysAwayEndsTheRun(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	cfg.MaxOutage = time.Millisecond
	cfg.OnJudged(func(_ backfill.Chunk, d string) {
		f.databases[d].EndSessions(t, "datname = current_database() AND application_name = 'shardctl backfill'")
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := backfill.Run(ctx, cfg)
	refusal(t, err, "backfill.outage")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	f.run(t, f.live(1000))
	f.check(t)
}
