package auditlog_test

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/auditlog"
)

func TestWatchStopsAtDDL(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: "CREATE TYPE public.mood AS ENUM ('so'); " + parts + "; ALTER TABLE public.block ADD mood public.mood; CREATE TABLE public.spare (LIKE public.block)"})
	conn := s.connect(t, s.env().Source)
	watch := auditlog.NewWatch(auditlog.SourceSide(s.layout))
	for _, c := range []struct {
		name, sql string
		mentions  string // "" is no stop
		rewritten bool
	}{
		{name: "nothing"},
		{name: "ordinary writes", sql: "INSERT INTO block VALUES (1, 1)"},
		{name: "a new index, a default, statistics, an owner's comment", sql: "CREATE INDEX ON block (workspace_id); ALTER TABLE block ALTER body SET DEFAULT 'x'; ANALYZE block; COMMENT ON TABLE block IS 'x'"},
		{name: "vacuum", sql: "VACUUM block"},
		{name: "freeze", sql: "VACUUM FREEZE block"},
		{name: "rewrite", sql: "VACUUM FULL low", rewritten: true},
		{name: "truncate", sql: "TRUNCATE block", rewritten: true},
		{name: "another trigger", sql: "CREATE FUNCTION nop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER own AFTER INSERT ON block FOR EACH ROW EXECUTE FUNCTION nop()"},
		{name: "disabled", sql: "ALTER TABLE low DISABLE TRIGGER shardctl_m_capture", mentions: "is disabled"},
		{name: "disabled on the root", sql: "ALTER TABLE block DISABLE TRIGGER ALL", mentions: "is disabled"},
		{name: "origin only", sql: "ALTER TABLE block ENABLE TRIGGER shardctl_m_capture", mentions: "is disabled"},
		{name: "disabled for a while", sql: "ALTER TABLE low DISABLE TRIGGER ALL; INSERT INTO low VALUES (3, 1); ALTER TABLE low ENABLE TRIGGER ALL; ALTER TABLE low ENABLE ALWAYS TRIGGER shardctl_m_capture, ENABLE ALWAYS TRIGGER shardctl_m_truncate, DISABLE TRIGGER shardctl_m_fence_1, DISABLE TRIGGER shardctl_m_fence_truncate_1", mentions: "for a while"},
		{name: "dropped", sql: "DROP TRIGGER shardctl_m_truncate ON low", mentions: "dropped"},
		{name: "type", sql: "ALTER TABLE block ALTER COLUMN workspace_id TYPE int", mentions: "column workspace_id was bigint not null and is integer not null"},
		{name: "new column", sql: "ALTER TABLE block ADD COLUMN extra int", mentions: "column extra (integer) is new"},
		{name: "column gone", sql: "ALTER TABLE block DROP COLUMN body", mentions: "column body (text) is gone"},
		{name: "null allowed", sql: "ALTER TABLE block ALTER workspace_id DROP NOT NULL", mentions: "workspace_id"},
		{name: "enum", sql: "ALTER TYPE mood ADD VALUE 'la'", mentions: "public.mood (so, la)"},
		{name: "attached", sql: "CREATE TABLE high2 PARTITION OF high FOR VALUES FROM (500) TO (1000)", mentions: "attached"},
		{name: "detached", sql: "ALTER TABLE block DETACH PARTITION low", mentions: "detached"},
		{name: "detached and attached again", sql: "ALTER TABLE block DETACH PARTITION low; ALTER TABLE block ATTACH PARTITION low FOR VALUES FROM (0) TO (100)", mentions: "detached"},
		{name: "primary key", sql: "ALTER TABLE high1 ALTER workspace_id SET NOT NULL; ALTER TABLE block DROP CONSTRAINT block_pkey; ALTER TABLE block ADD PRIMARY KEY (id, workspace_id)", mentions: "primary key"},
		{name: "renamed", sql: "ALTER TABLE block RENAME TO old", mentions: "renamed"},
		{name: "replaced", sql: "ALTER TABLE block RENAME TO old; ALTER TABLE spare RENAME TO block", mentions: "replaced"},
	} {
		vacuum := slices.Contains([]string{"vacuum", "freeze", "rewrite"}, c.name)
		if c.sql != "" && !vacuum {
			// In a transaction that is rolled back, which sees its own DDL.
			runSQL(t, conn, "BEGIN; SET LOCAL search_path = public; "+c.sql+"; SET LOCAL search_path = pg_catalog")
		} else if vacuum {
			s.source.Exec(t, c.sql)
		}
		got, err := watch.Check(t.Context(), conn)
		if c.mentions == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.mentions != "" {
			failure(t, err, "capture.ddl", c.mentions, "public.block", "undo the change", "--acknowledge-ddl")
		}
		if slices.Contains(got.Rewritten, 1) != c.rewritten {
			t.Errorf("%s: rewritten %v", c.name, got.Rewritten)
		}
		runSQL(t, conn, "ROLLBACK")
		if c.rewritten {
			_, err := watch.Check(t.Context(), conn)
			must(t, err)
		}
	}
}

// The watch belongs to the snapshot: DDL committed after it does not show, and
// shows at the next.
func TestWatchSeesItsSnapshot(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	watch := auditlog.NewWatch(auditlog.SourceSide(s.layout))
	tick := begin(t, s.source)
	exec(t, tick, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	s.source.Exec(t, "ALTER TABLE block DISABLE TRIGGER ALL; INSERT INTO block VALUES (1, 1); ALTER TABLE block ENABLE ALWAYS TRIGGER shardctl_m_capture")
	_, err := watch.Check(t.Context(), tick)
	must(t, err)
	must(t, tick.Rollback(t.Context()))
	failure(t, check(t, s), "capture.ddl")
}

func TestWatchOfADatabase(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock, databases: 1})
	conn := s.connect(t, s.env().Databases[0])
	watch := auditlog.NewWatch(auditlog.DatabaseSide(s.layout, "db0"))
	// What the end of a copy does.
	s.dbs[0].Exec(t, "ALTER TABLE shard_1.block DROP CONSTRAINT block_pkey; ALTER TABLE shard_1.block ADD PRIMARY KEY (id); CREATE INDEX ON shard_2.block (workspace_id)")
	_, err := watch.Check(t.Context(), conn)
	must(t, err)
	s.dbs[0].Exec(t, "ALTER TABLE shard_3.block ALTER workspace_id TYPE int")
	_, err = watch.Check(t.Context(), conn)
	failure(t, err, "capture.ddl", "column workspace_id was bigint and is bigint or integer", "db0")
}

func TestAcknowledgedDDLIsCaptured(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts, databases: 1})
	s.source.Exec(t, "INSERT INTO block VALUES (1, 1)")
	change := "CREATE TABLE %shigh2 PARTITION OF %shigh FOR VALUES FROM (500) TO (1000)"
	s.source.Exec(t, "ALTER TABLE block ALTER COLUMN workspace_id TYPE int; "+sprintf(change, "public.", "public."))
	failure(t, check(t, s), "capture.ddl", "workspace_id", "attached")
	failure(t, auditlog.Install(t.Context(), s.env()), "capture.ddl")
	for _, schema := range []string{"shard_0.", "shard_1.", "shard_2.", "shard_3."} {
		s.dbs[0].Exec(t, "ALTER TABLE "+schema+"block ALTER COLUMN workspace_id TYPE int; "+sprintf(change, schema, schema))
	}
	s.reload(t)
	must(t, auditlog.AcknowledgeDDL(t.Context(), s.env()))
	must(t, check(t, s))
	s.source.Exec(t, "INSERT INTO high2 VALUES (501, 7); TRUNCATE high2")
	wantRows(t, "entries", logOf(t, s.source, 1, "op, n1, nkey, pg_typeof(nkey), loc"), "I|1|1|integer|NULL", "I|501|7|integer|NULL", "T|NULL|NULL|integer|public.high2")
	s.dbs[0].Exec(t, "TRUNCATE shard_2.high2")
	wantRows(t, "entries", logOf(t, s.dbs[0], 1, "op, loc"), "T|shard_2")
	wantRows(t, "fences sleep on the new partition too", s.source.Rows(t, "SELECT count(*), min(tgenabled::text), max(tgenabled::text) FROM pg_trigger WHERE tgname LIKE 'shardctl_m_fence%' AND tgrelid = 'high2'::regclass"), "2|D|D")
}

// A fence that is added late for a database that owns its shards stands at once.
func TestAcknowledgedDDLKeepsFencesUp(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts})
	s.source.Exec(t, `UPDATE shardctl.ownership SET owner = 'db0'; CREATE TABLE high2 PARTITION OF high FOR VALUES FROM (500) TO (1000)`)
	s.reload(t)
	must(t, auditlog.AcknowledgeDDL(t.Context(), s.env()))
	wantRows(t, "fences", s.source.Rows(t, "SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgname LIKE 'shardctl_m_fence%'"), "A")
}
