package journey

import (
	"context"

	"github.com/shardctl/shardctl/internal/binary"
)

// unverified are obstacles that verification is, the first two before any full pass.
var unverified = []obstacle{
	{"verify was never run", 4, []string{"there was no full pass", "shardctl verify"}, func(*siege) ([]string, func()) { return nil, func() {} }},
	{"verify of a sample only", 4, []string{"there was no full pass", "shardctl verify"}, func(s *siege) ([]string, func()) {
		s.w.must(s.t, "verify", "--mode", "sample", "--samples", "20")
		return nil, func() { s.w.must(s.t, "verify") }
	}},
	{"verify was long ago", 4, []string{"the last pass ended", "shardctl verify"}, func(s *siege) ([]string, func()) {
		_, undo := spec("verify_max_age: 1h", always("verify_max_age: 1s"))(s)
		eventually(s.t, binary.Patience, "the pass to be old", func() bool {
			return len(s.w.texts(s.w.sourceDSN(), "SELECT 'old' FROM shardctl.verify_pass WHERE mode = 'full' HAVING clock_timestamp() - max(finished_at) > '1 s'")) > 0
		})
		return nil, undo
	}},
	{"differences were found", 4, []string{"1 rows differ", "verify --repair"}, func(s *siege) ([]string, func()) {
		const damage = "SET session_replication_role = replica; SET shardctl.applier = 'blocked'; DELETE FROM shard_000.comment WHERE id = (SELECT min(id) FROM shard_000.comment)"
		s.c.rest(func() {
			s.w.exec(s.w.databaseDSN(0), damage)
			if code, doc := s.w.run(s.t, "verify"); code != 3 {
				s.t.Fatalf("verify: exit %d: %v", code, doc)
			}
		})
		return nil, func() {
			// A writer may have brought the row again meanwhile: then there is nothing to repair.
			if code, doc := s.w.run(s.t, "verify", "--repair", "--yes"); code != 3 && code != 0 {
				s.t.Fatalf("verify --repair: exit %d: %v", code, doc)
			}
			eventually(s.t, binary.Patience, "a clean pass", func() bool {
				code, _ := s.w.run(s.t, "verify")
				return code == 0
			})
		}
	}},
	{"too many keys are unsettled", 4, []string{"keys went on changing", "shardctl verify"}, func(s *siege) ([]string, func()) {
		s.catchup.Interrupt(s.t) // it would settle them
		_, undo := statements(source, "INSERT INTO shardctl.verify_unsettled SELECT 'blocked', 'db0', 1, ARRAY[gen_random_uuid()::text] FROM generate_series(1, 5001)",
			"DELETE FROM shardctl.verify_unsettled")(s)
		return nil, func() { undo(); s.again() }
	}},
}

const writing = "LOCK TABLE public.block IN ROW EXCLUSIVE MODE"

// transactions are those of others, and maintenance.
var transactions = []obstacle{
	{"a writer at work", 4, nil, busy(source, "nightly", "SELECT 1", writing+"; SELECT pg_sleep(100)")},
	{"a writer idle in its transaction", 4, []string{"idle in transaction", "open for 00:00:0"}, idle(source, "forgotten", writing)},
	{"a prepared transaction", 4, []string{"prepared transaction left_here"}, statements(source, "BEGIN; "+writing+"; PREPARE TRANSACTION 'left_here'", "ROLLBACK PREPARED 'left_here'")},
	{"a long reader in a pool", 4, []string{"app_001", "idle in transaction, open for 00:00:0"}, reader(source)},
	{"a vacuum that gives way to nobody", 4, nil, idle(source, "autovacuum", "LOCK TABLE public.comment IN SHARE UPDATE EXCLUSIVE MODE")},
	{"a vacuum by hand", 4, nil, busy(source, "dba", "SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1; SET vacuum_cost_page_hit = 10000", "VACUUM (DISABLE_PAGE_SKIPPING) public.block")},
	{"an index made by hand", 4, nil, func(s *siege) ([]string, func()) {
		old, _ := s.session(s.w.sourceDSN(), "snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class")
		names, undo := busy(source, "dba", "SELECT 1", "CREATE INDEX CONCURRENTLY by_hand ON public.block (version)")(s)
		return names, func() {
			undo()
			_ = old.Close(context.Background())
			s.w.exec(s.w.sourceDSN(), "DROP INDEX IF EXISTS by_hand")
		}
	}},
	{"a vacuum on a database", 4, nil, idle(0, "autovacuum", "LOCK TABLE shard_002.comment IN SHARE UPDATE EXCLUSIVE MODE")},
	{"a locked table on a database", 4, nil, then(idle(0, "ddl by hand", "LOCK TABLE shard_000.block IN ACCESS EXCLUSIVE MODE"), (*siege).again)},
}

// wayBack are the obstacles of a rollback.
var wayBack = []obstacle{
	{"a writer idle in its transaction", 4, []string{"db0", "idle in transaction"}, idle(0, "forgotten", "LOCK TABLE shard_000.block IN ROW EXCLUSIVE MODE")},
	{"a long reader in a pool", 4, []string{"app_001"}, reader(1)},
	{"a parked key", 4, []string{"db0", "public.block", "only_here"}, func(s *siege) ([]string, func()) {
		s.w.exec(s.w.sourceDSN(), "ALTER TABLE public.block ADD CONSTRAINT only_here CHECK (version <> 4711)")
		s.w.exec(s.w.databaseDSN(0), "INSERT INTO shard_000.block (id, workspace_id, doc, version) SELECT '"+extra+"', workspace_id, '{}', 4711 FROM shard_000.block LIMIT 1")
		s.parked(source, "1")
		return []string{extra}, func() {
			s.w.exec(s.w.sourceDSN(), "ALTER TABLE public.block DROP CONSTRAINT only_here")
			s.w.exec(s.w.databaseDSN(0), "DELETE FROM shard_000.block WHERE id = '"+extra+"'")
			s.parked(source, "0")
		}
	}},
	{"a gap on the way back", 4, []string{"db1", "the log reached 5 bytes"}, then(statements(1,
		"INSERT INTO shardctl.gap (migration, database, direction, reason) VALUES ('blocked', 'db1', 'reverse', 'the log reached 5 bytes, its hard limit is 4')",
		"DELETE FROM shardctl.gap"), (*siege).again)},
	{"a database is down", 1, []string{"db1"}, func(s *siege) ([]string, func()) {
		s.c.gate.Lock() // its clients could do nothing but wait
		s.w.targetOf(1).Stop(s.t, "fast")
		return nil, func() {
			s.w.targetOf(1).Start(s.t)
			s.again()
			s.c.gate.Unlock()
		}
	}},
}
