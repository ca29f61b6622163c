package backfill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/migrate"
)

// TestLive runs one after the other what would each need databases of its own.
func TestLive(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"ARowDeletedBetweenReadAndWriteStaysDead", testARowDeletedBetweenReadAndWriteStaysDead},
		scenario{"ANewerRowIsNotOverwritten", testANewerRowIsNotOverwritten},
		scenario{"ADeletedAndReinsertedRowIsTheNewOne", testADeletedAndReinsertedRowIsTheNewOne},
		scenario{"AWorkerThatWakesUpAfterPruningReadsAgain", testAWorkerThatWakesUpAfterPruningReadsAgain},
		scenario{"ARowThatMovedIntoAnotherChunkIsThereOnce", testARowThatMovedIntoAnotherChunkIsThereOnce},
		scenario{"AKeyCommittedWhileAChunkIsWrittenStartsItAgain", testAKeyCommittedWhileAChunkIsWrittenStartsItAgain},
		scenario{"AHigherVersionReplacesARowOfAnEarlierChunk", testAHigherVersionReplacesARowOfAnEarlierChunk},
		scenario{"ARewriteStartsTheTableAnew", testARewriteStartsTheTableAnew},
		scenario{"ATruncateBetweenReadAndWriteLeavesNothingBehind", testATruncateBetweenReadAndWriteLeavesNothingBehind},
		scenario{"AColumnThatChangesStopsClearly", testAColumnThatChangesStopsClearly},
		scenario{"RowsWithoutAKey", testRowsWithoutAKey},
		scenario{"Version13ReadsListsOfPages", testVersion13ReadsListsOfPages},
	)
}

// first calls f with the first chunk and database only.
func first(f func(backfill.Chunk, string)) func(backfill.Chunk, string) {
	var once sync.Once
	return func(c backfill.Chunk, database string) { once.Do(func() { f(c, database) }) }
}

// atChunk calls f once, when a database is at the chunk of that number.
func atChunk(no int, f func(backfill.Chunk, string)) func(backfill.Chunk, string) {
	var once sync.Once
	return func(c backfill.Chunk, database string) {
		if c.No == no {
			once.Do(func() { f(c, database) })
		}
	}
}

func testARowDeletedBetweenReadAndWriteStaysDead(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(5)
	cfg.OnBefore(first(func(backfill.Chunk, string) {
		f.source.Exec(t, "DELETE FROM block WHERE id <= 20")
		f.tick(t, ids(1, 20)...)
	}))
	f.run(t, cfg)
	f.check(t)
}

func ids(from, to int64) []int64 {
	var out []int64
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

func testANewerRowIsNotOverwritten(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(5)
	cfg.OnBefore(first(func(backfill.Chunk, string) {
		// Also to another shard, on another database: the old place has a tombstone.
		f.source.Exec(t, "UPDATE block SET note = 'newer', ws = ws + id % 2, version = 2 WHERE id <= 40")
		f.tick(t, ids(1, 40)...)
	}))
	f.run(t, cfg)
	f.check(t)
}

func testADeletedAndReinsertedRowIsTheNewOne(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.spec.Tables[0].Version = "version"
	f.load(t)
	cfg := f.live(5)
	cfg.OnBefore(first(func(backfill.Chunk, string) {
		f.source.Exec(t, "DELETE FROM block WHERE id <= 9; INSERT INTO block SELECT i, 5, 'again', 0 FROM generate_series(1, 9) i")
		f.tick(t, ids(1, 9)...)
	}))
	f.run(t, cfg)
	f.check(t)
}

func testAWorkerThatWakesUpAfterPruningReadsAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(5)
	var opened atomic.Int32
	cfg.OnOpened(func(c backfill.Chunk) {
		if c.No == 1 {
			opened.Add(1)
		}
	})
	cfg.OnBefore(atChunk(1, func(backfill.Chunk, string) {
		f.source.Exec(t, "DELETE FROM block WHERE id <= 20")
		tick := f.tick(t, ids(1, 20)...)
		for _, db := range f.databases {
			db.Exec(t, "UPDATE shardctl.pruned SET through = $1", tick)
			db.Exec(t, `DELETE FROM shardctl.m_tomb_1`)
		}
	}))
	f.run(t, cfg)
	f.check(t)
	if opened.Load() < 2 {
		t.Error("the chunk was not read again")
	}
}

func testARowThatMovedIntoAnotherChunkIsThereOnce(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(5)
	cfg.OnCommitted(atChunk(1, func(backfill.Chunk, string) {
		f.source.Exec(t, "UPDATE block SET note = repeat('moved', 30) WHERE id <= 20")
	}))
	f.run(t, cfg)
	f.tick(t, ids(1, 20)...)
	f.check(t)
}

func testAKeyCommittedWhileAChunkIsWrittenStartsItAgain(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(300))
	cfg := f.live(1000)
	var raced atomic.Int32
	cfg.OnJudged(first(func(_ backfill.Chunk, database string) {
		raced.Add(1)
		loc := f.l.Locations(f.l.Tables[0], database)[0]
		rows := f.source.Rows(t, "SELECT id, ws FROM block x WHERE "+f.l.ShardSQL(f.l.Tables[0], "ws")+" = ANY($1) LIMIT 1", f.spec.Shards.ShardsOf(database))
		id, ws, _ := strings.Cut(rows[0], "|")
		f.databases[database].Exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%s, %s, 'row %s', 1)", f.l.QualifiedTarget(f.l.Tables[0], loc), id, ws, id))
	}))
	f.run(t, cfg)
	f.check(t)
	if raced.Load() != 1 {
		t.Error("nothing was written in between")
	}
}

func testAHigherVersionReplacesARowOfAnEarlierChunk(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	f.spec.Tables[0].Version = "version"
	f.load(t)
	cfg := f.live(5)
	cfg.Workers = 1
	cfg.OnCommitted(atChunk(1, func(backfill.Chunk, string) {
		f.source.Exec(t, "UPDATE block SET note = repeat('moved', 30), version = 2 WHERE id <= 20")
	}))
	f.run(t, cfg)
	f.check(t) // without a tick
}

func testARewriteStartsTheTableAnew(t *testing.T, p *pool) {
	for _, mode := range []backfill.Mode{backfill.Live, backfill.Fast} {
		t.Run(string(mode), func(t *testing.T) {
			f := p.fixture(t, blocks(3000))
			f.source.Exec(t, "DELETE FROM block WHERE id % 2 = 0")
			cfg := f.live(4)
			cfg.Mode, cfg.Workers = mode, 1 // another one may have read all that is left
			var restarted atomic.Int32
			cfg.Events = func(e backfill.Event) {
				if e.Kind == backfill.EventRestarted {
					restarted.Add(1)
				}
			}
			cfg.OnCommitted(atChunk(2, func(backfill.Chunk, string) { f.source.Exec(t, "VACUUM FULL block") }))
			f.run(t, cfg)
			f.check(t)
			if restarted.Load() != 1 {
				t.Errorf("%d restarts", restarted.Load())
			}
			f.keysAreThere(t)
		})
	}
}

func testATruncateBetweenReadAndWriteLeavesNothingBehind(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(2000))
	cfg := f.live(5)
	cfg.OnBefore(first(func(backfill.Chunk, string) {
		f.source.Exec(t, "TRUNCATE block; INSERT INTO block VALUES (7, 7, 'after', 1)")
		tick := f.tick(t)
		for d, db := range f.databases {
			for _, loc := range f.l.Locations(f.l.Tables[0], d) {
				db.Exec(t, "DELETE FROM "+f.l.QualifiedTarget(f.l.Tables[0], loc))
				db.Exec(t, "INSERT INTO shardctl.table_tombstone VALUES ('m', 1, $1, $2)", loc.Schema, tick)
			}
		}
	}))
	f.run(t, cfg)
	f.check(t)
}

func testAColumnThatChangesStopsClearly(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	cfg := f.live(4)
	cfg.Workers = 1 // another one may have read all that is left
	cfg.OnCommitted(first(func(backfill.Chunk, string) { f.source.Exec(t, "ALTER TABLE block ALTER version TYPE bigint") }))
	_, err := backfill.Run(context.Background(), cfg)
	refusal(t, err, "backfill.columns")

	// The same change on the databases, and the command again.
	for d, db := range f.databases {
		db.Exec(t, "ALTER TABLE "+f.l.QualifiedTarget(f.l.Tables[0], f.l.Locations(f.l.Tables[0], d)[0])+" ALTER version TYPE bigint")
	}
	f.load(t)
	f.run(t, f.config())
	f.check(t)
}

func refusal(t *testing.T, err error, code string) {
	t.Helper()
	var failure *migrate.Failure
	if !errors.As(err, &failure) || failure.Code != code || failure.Hint == "" {
		t.Fatalf("%v, a failure %s was expected", err, code)
	}
}

func testRowsWithoutAKey(t *testing.T, p *pool) {
	for _, c := range []struct {
		policy  migrate.Stray
		code    string
		skipped int64
	}{
		{migrate.Stray{Policy: "refuse"}, "backfill.no_key", 0},
		{migrate.Stray{Policy: "skip"}, "", 10},
		{migrate.Stray{Policy: "shard", Shard: 3}, "", 0},
	} {
		t.Run(c.policy.Policy, func(t *testing.T) {
			s := blocks(500)
			s.ddl = strings.Replace(s.ddl, "ws bigint NOT NULL", "ws bigint", 1) + "; UPDATE block SET ws = NULL WHERE id <= 10"
			s.target = map[string]string{"block": strings.Replace(blockColumns, " NOT NULL", "", 1)}
			s.tables[0].NullKeys = c.policy
			f := p.fixture(t, s)
			res, err := backfill.Run(context.Background(), f.live(2))
			if c.code != "" {
				refusal(t, err, c.code)
				return
			}
			must(t, err)
			f.check(t)
			if res.Skipped != c.skipped {
				t.Errorf("%d rows skipped, want %d", res.Skipped, c.skipped)
			}
		})
	}
}

func testVersion13ReadsListsOfPages(t *testing.T, p *pool) {
	f := p.fixture(t, blocks(3000))
	cfg := f.live(4)
	cfg.PretendVersion(130000)
	f.run(t, cfg)
	f.check(t)
}
