package backfill_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// TestFast runs one after the other what would each need databases of its own.
func TestFast(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"FastCopiesWhileTicksWait", testFastCopiesWhileTicksWait},
		scenario{"DoubledRowsDoNotKeepAKeyFromBeingBuilt", testDoubledRowsDoNotKeepAKeyFromBeingBuilt},
		scenario{"FastIsRefusedWhereThereAreRows", testFastIsRefusedWhereThereAreRows},
		scenario{"AFastGrowingLogMakesTheChoiceLive", testAFastGrowingLogMakesTheChoiceLive},
		scenario{"FastGivesWayWhenTheLogFills", testFastGivesWayWhenTheLogFills},
		scenario{"AChunkReadBeforeTheCopyBeganAnewIsThrownAway", testAChunkReadBeforeTheCopyBeganAnewIsThrownAway},
		scenario{"AChunkFromBeforeTheStartIsReadAgain", testAChunkFromBeforeTheStartIsReadAgain},
	)
}

func testFastCopiesWhileTicksWait(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.fast(5)
	cfg.OnCommitted(atChunk(1, func(backfill.Chunk, string) {
		for d, db := range f.databases {
			if held := db.Value(t, "SELECT held FROM shardctl.control"); held != "t" {
				t.Errorf("%s is not held while it is copied", d)
			}
		}
		// A row that moves into another chunk, one that dies and one that is born.
		f.source.Exec(t, `UPDATE block SET note = repeat('moved', 30), version = 2 WHERE id <= 20; DELETE FROM block WHERE id = 21; INSERT INTO block VALUES (9001, 1, 'new', 1)`)
	}))
	f.run(t, cfg)
	f.keysAreThere(t)
	f.tick(t, append(ids(1, 21), 9001)...)
	f.check(t)
}

func testDoubledRowsDoNotKeepAKeyFromBeingBuilt(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.fast(1000)
	var doubled atomic.Int32
	cfg.OnBuilding(func(d string) {
		for _, loc := range f.l.Locations(f.l.Tables[0], d) {
			target := f.l.QualifiedTarget(f.l.Tables[0], loc)
			f.databases[d].Exec(t, "INSERT INTO "+target+" SELECT * FROM "+target+" LIMIT 50")
			doubled.Add(1)
		}
	})
	f.run(t, cfg)
	f.check(t)
	f.keysAreThere(t)
	if doubled.Load() == 0 {
		t.Error("nothing was doubled")
	}
}

func testFastIsRefusedWhereThereAreRows(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	f.tick(t, 1, 2, 3, 4, 5, 6, 7, 8)
	_, err := backfill.Run(context.Background(), f.fast(5))
	refusal(t, err, "backfill.mode")
	cfg := f.config()
	f.run(t, cfg)
	f.check(t)
	for _, mode := range f.source.Rows(t, "SELECT mode FROM shardctl.backfill_mode") {
		if mode != "live" {
			t.Errorf("a database with rows was copied %s", mode)
		}
	}
}

func testAFastGrowingLogMakesTheChoiceLive(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(10))
	f.source.Exec(t, `INSERT INTO shardctl.backfill_plan (migration, plan, table_no, leaf, relation, relid, filenode, pages, bytes, estimated_rows) VALUES ('m', 1, 1, 0, 'x', 0, 0, 1, 1::bigint << 40, 1)`)
	f.source.Exec(t, "INSERT INTO shardctl.segment (migration, table_no, switched_at) VALUES ('m', 1, clock_timestamp() - interval '1 min')")
	f.source.Exec(t, "INSERT INTO shardctl.m_log_1_0 SELECT FROM generate_series(1, 20000)")
	s, err := backfill.Growth(context.Background(), f.conn, f.l)
	must(t, err)
	if s.Bytes != 1<<40 || s.LogPerSecond < 10_000 || s.LogPerSecond > 100_000 {
		t.Errorf("%+v", s)
	}
	s.LogSoftLimit = 1 << 30
	if mode, reason := backfill.ChooseMode(s); mode != backfill.Live {
		t.Errorf("%s: %s", mode, reason)
	}
}

func testFastGivesWayWhenTheLogFills(t *testing.T, p *pool) {
	s := blocks(3000)
	f := p.fixture(t, s)
	f.spec.Capture.LogSoftLimit = 1 << 20
	cfg := f.fast(2)
	cfg.Workers = 1
	released := func() bool {
		for _, db := range f.databases {
			if db.Value(t, "SELECT held FROM shardctl.control") == "t" {
				return false
			}
		}
		return true
	}
	full := make(chan struct{})
	cfg.OnCommitted(atChunk(2, func(backfill.Chunk, string) {
		f.source.Exec(t, "INSERT INTO shardctl.m_log_1_0 SELECT FROM generate_series(1, 50000)")
		close(full)
		pgtest.Eventually(t, patience, released) // the only worker waits, the keys are built
	}))
	done := make(chan error, 1)
	go func() {
		_, err := backfill.Run(context.Background(), cfg)
		done <- err
	}()
	<-full
	pgtest.Eventually(t, patience, released)
	if left := f.source.Value(t, "SELECT next_page IS NOT NULL FROM shardctl.backfill_plan"); left != "t" {
		t.Error("no chunk was left for live mode")
	}
	f.source.Exec(t, "DELETE FROM block WHERE id > 2900")
	f.source.Exec(t, "TRUNCATE shardctl.m_log_1_0")
	must(t, <-done)
	f.tick(t, ids(2901, 3000)...)
	f.check(t)
	f.keysAreThere(t)
}

func testAChunkReadBeforeTheCopyBeganAnewIsThrownAway(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	var opened atomic.Int32
	cfg.OnOpened(func(backfill.Chunk) { opened.Add(1) })
	cfg.OnBefore(first(func(_ backfill.Chunk, d string) {
		f.databases[d].Exec(t, "UPDATE shardctl.control SET plan = plan + 1")
		f.source.Exec(t, "DELETE FROM block WHERE id <= 20") // before the position that would be held now
	}))
	f.run(t, cfg)
	if opened.Load() != 2 {
		t.Errorf("the chunk was read %d times", opened.Load())
	}
	for d, db := range f.databases {
		for _, loc := range f.l.Locations(f.l.Tables[0], d) {
			n := db.Value(t, "SELECT count(*) FROM "+f.l.QualifiedTarget(f.l.Tables[0], loc)+" WHERE id <= 20")
			if db.Value(t, "SELECT plan FROM shardctl.control") == "1" && n != "0" {
				t.Errorf("%s has %s rows that were gone before its copy began", d, n)
			}
		}
	}
}

// A held database that was started anew counts tombstones as pruned up to the marker of
// its start: what a replica that lags, or a worker that hung, had read before is read again.
func testAChunkFromBeforeTheStartIsReadAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(500))
	cfg := f.live(1000)
	cfg.Mode = backfill.Fast
	var opened atomic.Int32
	cfg.OnOpened(func(backfill.Chunk) { opened.Add(1) })
	var started string
	cfg.OnBefore(first(func(_ backfill.Chunk, d string) {
		started = d
		f.source.Exec(t, `DELETE FROM block WHERE id <= 20;
			INSERT INTO shardctl.marker (id, migration, tick, snapshot, lsn) VALUES (gen_random_uuid(), 'm', 1000, pg_current_snapshot(), pg_current_wal_insert_lsn())`)
		f.databases[d].Exec(t, "UPDATE shardctl.pruned SET through = 1000")
	}))
	f.run(t, cfg)
	if opened.Load() != 2 {
		t.Errorf("the chunk was read %d times", opened.Load())
	}
	for _, loc := range f.l.Locations(f.l.Tables[0], started) {
		if n := f.databases[started].Value(t, "SELECT count(*) FROM "+f.l.QualifiedTarget(f.l.Tables[0], loc)+" WHERE id <= 20"); n != "0" {
			t.Errorf("%s has %s rows that were gone before its start", started, n)
		}
	}
}
