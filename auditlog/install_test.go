package auditlog_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/pgtest"
)

const ours = `SELECT g.tgrelid::regclass || ' ' || g.tgname || ' ' || g.tgenabled::text || ' ' || g.oid || ' ' || g.xmin::text FROM pg_trigger g WHERE g.tgname LIKE 'shardctl%' ORDER BY 1`

func TestInstallAgainChangesNothing(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: blockDDL, tables: blocks(), databases: 1})
	before, beforeDB := s.source.Rows(t, ours), s.dbs[0].Rows(t, ours)
	if len(before) == 0 || len(beforeDB) != 2*2*4 {
		t.Errorf("%d triggers on the source, %d on the database", len(before), len(beforeDB))
	}
	env := s.env()
	var changed []string
	env.Observe = func(i auditlog.Installed) {
		if i.Changed {
			changed = append(changed, i.Side+" "+i.Table)
		}
	}
	must(t, auditlog.Install(t.Context(), env))
	wantRows(t, "changed", changed)
	wantRows(t, "triggers on the source", s.source.Rows(t, ours), before...)
	wantRows(t, "triggers on the database", s.dbs[0].Rows(t, ours), beforeDB...)
	wantRows(t, "everywhere tables are not captured on databases", s.dbs[0].Rows(t, "SELECT to_regclass('shardctl.m_log_3_0')"), "NULL")
	wantRows(t, "first positions", append(s.source.Rows(t, "SELECT database, direction, snapshot FROM shardctl.position"), s.dbs[0].Rows(t, "SELECT database, direction, snapshot FROM shardctl.position")...),
		"db0|reverse|1:1:", "db0|forward|1:1:")
	wantRows(t, "fences sleep", s.source.Rows(t, "SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgname LIKE 'shardctl_m_fence%'"), "D")
	wantRows(t, "what exists and is not registered", unregistered(t, s))
}

// unregistered are objects of capture that the registry does not know.
func unregistered(t testing.TB, s *stage) []string {
	var out []string
	for place, d := range map[string]*pgtest.Database{"source": s.source, "db0": s.dbs[0]} {
		known := s.source.Rows(t, "SELECT kind || ' ' || name FROM shardctl.registry WHERE place = $1 AND removed_at IS NULL", place)
		there := d.Rows(t, `SELECT format('trigger "%s" ON "%s"."%s"', g.tgname, n.nspname, c.relname) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE g.tgname LIKE 'shardctl%' AND g.tgparentid = 0
			UNION ALL SELECT format('function "shardctl"."%s"()', p.proname) FROM pg_proc p WHERE p.proname LIKE 'm\_capture%'
			UNION ALL SELECT format('table "shardctl"."%s"', c.relname) FROM pg_class c WHERE c.relkind = 'r' AND c.relname LIKE 'm\_log%'`)
		for _, object := range there {
			if !slices.Contains(known, object) {
				out = append(out, place+" "+object)
			}
		}
	}
	return out
}

// Install is cut off later and later until it gets through: whatever was left must
// be completed, and no write is refused meanwhile.
func TestInstallCutOffAnywhereIsCompleted(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: blockDDL, tables: blocks(), databases: 1})
	cuts := 0
	for wait := 5 * time.Millisecond; ; wait += 15 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err := auditlog.Install(ctx, s.env())
		cancel()
		s.source.Exec(t, "INSERT INTO block VALUES ($1, 1)", cuts)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			t.Fatal(err)
		}
		cuts++
	}
	if cuts < 3 {
		t.Errorf("install was cut off %d times only", cuts)
	}
	wantRows(t, "what exists and is not registered", unregistered(t, s))
	for _, d := range []*pgtest.Database{s.source, s.dbs[0]} {
		wantRows(t, "state of capture", d.Rows(t, "SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgname IN ('shardctl_m_capture', 'shardctl_m_truncate')"), "A")
	}
	must(t, check(t, s))
}

// check is one look of a fresh watch at the source.
func check(t testing.TB, s *stage) error {
	_, err := auditlog.NewWatch(auditlog.SourceSide(s.layout)).Check(t.Context(), s.connect(t, s.env().Source))
	return err
}

func TestInstallWaitsForWritersAndNamesThem(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: oneBlock})
	tx := begin(t, s.source)
	exec(t, tx, "SET application_name = 'the writer'; INSERT INTO block VALUES (1, 1)")
	env := s.env()
	env.LockWait = 300 * time.Millisecond
	err := auditlog.Install(t.Context(), env)
	failure(t, err, "lock.timeout", "the writer", "block")
	must(t, tx.Commit(t.Context()))
	must(t, auditlog.Install(t.Context(), env))
	wantRows(t, "what was written before", logOf(t, s.source, 1, "n1"))
}

// Four writers go on while capture is made: none fails, and all that was committed
// by transactions that began after it is in the log.
func TestInstallUnderWriters(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: oneBlock})
	ctx, stop := context.WithCancel(t.Context())
	var writers errgroup.Group
	for w := range 4 {
		conn := s.source.Connect(t)
		writers.Go(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := conn.Exec(t.Context(), "INSERT INTO block VALUES ($1, 1)", w*1_000_000+i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	soon(t, func() bool { return s.source.Value(t, "SELECT count(*) > 50 FROM block") == "t" })
	s.install(t)
	at := s.source.Value(t, "SELECT pg_snapshot_xmax(pg_current_snapshot())")
	soon(t, func() bool { return s.source.Value(t, "SELECT count(*) > 50 FROM shardctl.m_log_1_0") == "t" })
	stop()
	must(t, writers.Wait())
	wantRows(t, "missed", s.source.Rows(t, "SELECT id FROM block b WHERE xmin::text::bigint >= $1::text::bigint AND NOT EXISTS (SELECT FROM shardctl.m_log_1_0 l WHERE l.n1 = b.id)", at))
}

// A slow autovacuum holds the table; install makes it give way.
func TestInstallEvictsAutovacuum(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: []string{"autovacuum=on", "autovacuum_naptime=1s", "autovacuum_vacuum_cost_limit=1",
		"deadlock_timeout=200ms", "max_prepared_transactions=5"}})
	s := newStage(t, stageSpec{source: c.NewDatabase(t), ddl: oneBlock + ` WITH (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1);
		INSERT INTO public.block SELECT g, g, repeat('x', 100) FROM generate_series(1, 20000) g; DELETE FROM public.block WHERE id % 2 = 0`})
	vacuuming := func() bool {
		return s.source.Value(t, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'block'::regclass") == "1"
	}
	pgtest.Eventually(t, 30*time.Second, vacuuming)
	began := time.Now()
	s.install(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("install took %s", took)
	}
	s.source.Exec(t, "INSERT INTO block VALUES (0, 1)")
	wantRows(t, "entries", logOf(t, s.source, 1, "op, n1"), "I|0")
}

func TestTwoMigrationsMayNotShareATable(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: oneBlock})
	s.source.Exec(t, "INSERT INTO shardctl.captured VALUES ('other', 1, 'public', 'block')")
	failure(t, auditlog.Install(t.Context(), s.env()), "capture.taken", "public.block")
}

func TestInstallNeedsTheTablesOfADatabase(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: oneBlock, databases: 1})
	s.dbs[0].Exec(t, "DROP TABLE shard_2.block")
	failure(t, auditlog.Install(t.Context(), s.env()), "capture.no_table", "shard_2.block", "db0")
}

func TestInstallOnManySchemas(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: oneBlock, databases: 1, count: 240, schema: "shard_%03d"})
	began := time.Now()
	s.install(t)
	t.Logf("capture on 240 schemas took %s", time.Since(began))
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("capture on 240 schemas took %s", took)
	}
	wantRows(t, "triggers", s.dbs[0].Rows(t, "SELECT count(*), min(tgenabled::text) FROM pg_trigger WHERE tgname LIKE 'shardctl%'"), "480|A")
	conn := s.connect(t, s.env().Databases[0])
	watch := auditlog.NewWatch(auditlog.DatabaseSide(s.layout, "db0"))
	for range 3 {
		began = time.Now()
		_, err := watch.Check(t.Context(), conn)
		must(t, err)
		t.Logf("a look at 240 schemas took %s", time.Since(began))
	}
}

func TestUninstallLeavesNothing(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts, databases: 1})
	source, db := s.connect(t, s.env().Source), s.connect(t, s.env().Databases[0])
	must(t, auditlog.Uninstall(t.Context(), auditlog.DatabaseSide(s.layout, "db0"), source, db))
	must(t, auditlog.Uninstall(t.Context(), auditlog.SourceSide(s.layout), source, source))
	for _, d := range []*pgtest.Database{s.source, s.dbs[0]} {
		wantRows(t, "left", d.Rows(t, `SELECT tgname FROM pg_trigger WHERE tgname IN ('shardctl_m_capture', 'shardctl_m_truncate')
			UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE 'm\_capture%' UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'm\_log%'`))
	}
	s.source.Exec(t, "INSERT INTO block VALUES (1, 1); TRUNCATE block")
}

// What plan prints for install is what install makes.
func TestStatementsAreWhatInstallMakes(t *testing.T) {
	t.Parallel()
	const triggers = `SELECT g.tgrelid::regclass || ' ' || g.tgname FROM pg_trigger g WHERE g.tgname LIKE 'shardctl%' ORDER BY 1`
	s := newStage(t, stageSpec{ddl: parts, databases: 1})
	planned := map[string][]string{}
	for d, side := range map[*pgtest.Database]auditlog.Side{s.source: auditlog.SourceSide(s.layout), s.dbs[0]: auditlog.DatabaseSide(s.layout, "db0")} {
		tx := begin(t, d)
		exec(t, tx, ddl.Script(auditlog.Statements(side)))
		rows, err := tx.Query(t.Context(), triggers)
		must(t, err)
		planned[side.Name()], err = pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		must(t, tx.Rollback(t.Context()))
	}
	s.install(t)
	wantRows(t, "triggers on the source", planned["source"], s.source.Rows(t, triggers)...)
	// On a database leaves are not known beforehand: the plan names the locations.
	made := slices.DeleteFunc(s.dbs[0].Rows(t, triggers), func(x string) bool { return strings.HasSuffix(x, "_truncate") && !strings.Contains(x, ".block ") })
	wantRows(t, "triggers on the database", planned["db0"], made...)
}
