package auditlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/migrate"
)

func failureOf(err error) *migrate.Failure {
	var f *migrate.Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

const oneBlock = "CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body text)"

func TestEachOperationLeavesItsKeys(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"insert", "INSERT INTO block VALUES (1, 10, 'a'), (2, 20, 'b')", []string{"I|NULL|1|NULL|10", "I|NULL|2|NULL|20"}},
		{"update of neither key", "UPDATE block SET body = 'c' WHERE id = 1", []string{"U|1|1|10|10"}},
		{"update of nothing", "UPDATE block SET id = id WHERE id = 1", []string{"U|1|1|10|10"}},
		{"primary key change", "UPDATE block SET id = 3 WHERE id = 1", []string{"U|1|3|10|10"}},
		{"key change", "UPDATE block SET workspace_id = 11 WHERE id = 3", []string{"U|3|3|10|11"}},
		{"upsert", "INSERT INTO block VALUES (3, 12, 'd') ON CONFLICT (id) DO UPDATE SET body = excluded.body", []string{"U|3|3|11|11"}},
		{"delete", "DELETE FROM block WHERE id = 2", []string{"D|2|NULL|20|NULL"}},
		{"delete of nothing", "DELETE FROM block WHERE id = 99", nil},
		{"truncate", "TRUNCATE block", []string{"T|NULL|NULL|NULL|NULL"}},
		{"rolled back", "BEGIN; INSERT INTO block VALUES (4, 1, 'x'); ROLLBACK", nil},
		{"savepoints", "BEGIN; INSERT INTO block VALUES (5, 1, 'x'); SAVEPOINT a; INSERT INTO block VALUES (6, 1, 'x'); ROLLBACK TO a; INSERT INTO block VALUES (7, 1, 'x'); COMMIT",
			[]string{"I|NULL|5|NULL|1", "I|NULL|7|NULL|1"}},
		{"replica role", "SET session_replication_role = replica; DELETE FROM block WHERE id = 5; RESET session_replication_role", []string{"D|5|NULL|1|NULL"}},
		{"the applier", "SET shardctl.applier = 'm'; DELETE FROM block WHERE id = 7; TRUNCATE block; RESET shardctl.applier", nil},
		{"another migration's applier", "SET shardctl.applier = 'm2'; INSERT INTO block VALUES (8, 1, 'x'); RESET shardctl.applier", []string{"I|NULL|8|NULL|1"}},
	} {
		s.source.Exec(t, "TRUNCATE shardctl.m_log_1_0, shardctl.m_log_1_1")
		s.source.Exec(t, c.sql)
		wantRows(t, c.name, logOf(t, s.source, 1, "op, o1, n1, okey, nkey"), c.want...)
	}
}

func TestEntriesOfATransactionHaveItsTopXid(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	conn := s.source.Connect(t)
	runSQL(t, conn, "BEGIN; SAVEPOINT a; INSERT INTO block VALUES (1, 1, ''); SAVEPOINT b; INSERT INTO block VALUES (2, 1, '')")
	var xid string
	must(t, conn.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid))
	runSQL(t, conn, "COMMIT")
	wantRows(t, "xids", logOf(t, s.source, 1, "n1, xid"), "1|"+xid, "2|"+xid)
}

func TestCopyIsCaptured(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	conn := s.source.Connect(t)
	_, err := conn.CopyFrom(t.Context(), pgx.Identifier{"block"}, []string{"id", "workspace_id"}, pgx.CopyFromRows([][]any{{int64(1), int64(5)}, {int64(2), int64(6)}}))
	must(t, err)
	wantRows(t, "entries", logOf(t, s.source, 1, "op, n1, nkey"), "I|1|5", "I|2|6")
}

// An entry of a transaction that began early and commits late is beyond every
// position that was taken while it ran.
func TestALateCommitOfAnEarlyEntryIsSeen(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	late := s.source.Connect(t)
	runSQL(t, late, "BEGIN; INSERT INTO block VALUES (1, 1, '')")
	s.source.Exec(t, "INSERT INTO block VALUES (2, 1, '')")
	position := s.source.Value(t, "SELECT pg_current_snapshot()")
	runSQL(t, late, "COMMIT")
	s.source.Exec(t, "INSERT INTO block VALUES (3, 1, '')")
	beyond := s.source.Rows(t, `SELECT n1 FROM shardctl.m_log_1_0, (SELECT $1::text::pg_snapshot AS p) x
		WHERE xid >= pg_snapshot_xmax(p) OR xid IN (SELECT pg_snapshot_xip(p)) ORDER BY n1`, position)
	wantRows(t, "beyond the position", beyond, "1", "3")
}

const parts = `CREATE TABLE public.block (id bigint, workspace_id bigint NOT NULL, body text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE public.low PARTITION OF public.block FOR VALUES FROM (0) TO (100);
CREATE TABLE public.high PARTITION OF public.block FOR VALUES FROM (100) TO (1000) PARTITION BY RANGE (id);
CREATE TABLE public.high1 PARTITION OF public.high FOR VALUES FROM (100) TO (500)`

func TestALeafIsCapturedExactlyOnce(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts})
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"through the root", "INSERT INTO block VALUES (1, 1), (101, 1)", []string{"I|NULL|1|NULL", "I|NULL|101|NULL"}},
		{"through the leaf", "INSERT INTO low VALUES (2, 1); UPDATE high1 SET body = 'x'", []string{"I|NULL|2|NULL", "U|101|101|NULL"}},
		{"from leaf to leaf", "UPDATE block SET id = 102 WHERE id = 2", []string{"D|2|NULL|NULL", "I|NULL|102|NULL"}},
		{"truncate a leaf", "TRUNCATE low", []string{"T|NULL|NULL|public.low"}},
		{"truncate a branch", "TRUNCATE high", []string{"T|NULL|NULL|public.high1"}},
		{"truncate the root", "TRUNCATE block", []string{"T|NULL|NULL|public.block", "T|NULL|NULL|public.low", "T|NULL|NULL|public.high1"}},
		{"replica role", "SET session_replication_role = replica; INSERT INTO low VALUES (3, 1); INSERT INTO block VALUES (103, 1); RESET session_replication_role",
			[]string{"I|NULL|3|NULL", "I|NULL|103|NULL"}},
		{"new leaf", "CREATE TABLE high2 PARTITION OF high FOR VALUES FROM (500) TO (1000); SET session_replication_role = replica; INSERT INTO high2 VALUES (600, 1); RESET session_replication_role",
			[]string{"I|NULL|600|NULL"}},
	} {
		s.source.Exec(t, "TRUNCATE shardctl.m_log_1_0, shardctl.m_log_1_1")
		s.source.Exec(t, c.sql)
		wantRows(t, c.name, logOf(t, s.source, 1, "op, o1, n1, loc"), c.want...)
	}
}

// A database says for each entry at which of its locations the row is.
func TestADatabaseRecordsTheLocation(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts, databases: 1, count: 2})
	db := s.dbs[0]
	db.Exec(t, `INSERT INTO shard_0.block VALUES (1, 7); UPDATE shard_0.low SET body = 'x'; DELETE FROM shard_0.block; TRUNCATE shard_1.high1; TRUNCATE shard_1.block`)
	wantRows(t, "entries", logOf(t, db, 1, "op, loc, o1, n1, okey, nkey"),
		"I|shard_0|NULL|1|NULL|7", "U|shard_0|1|1|7|7", "D|shard_0|1|NULL|7|NULL", "T|shard_1|NULL|NULL|NULL|NULL",
		"T|shard_1|NULL|NULL|NULL|NULL", "T|shard_1|NULL|NULL|NULL|NULL", "T|shard_1|NULL|NULL|NULL|NULL")
}

// An application has no right on schema shardctl, and its search_path leads to an
// equality that lies.
func TestAnApplicationWithoutRights(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts})
	role := s.source.Name + "_app"
	s.source.Exec(t, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO %[1]s; CREATE SCHEMA %[1]s AUTHORIZATION %[1]s`, role))
	t.Cleanup(func() { s.source.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	conn := s.source.Connect(t)
	runSQL(t, conn, fmt.Sprintf(`SET ROLE %[1]s; SET search_path = %[1]s, pg_catalog, public;
		CREATE FUNCTION %[1]s.lie(text, text) RETURNS bool LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR %[1]s.= (LEFTARG = text, RIGHTARG = text, FUNCTION = %[1]s.lie);
		CREATE FUNCTION %[1]s.format(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT ''lie''';
		CREATE FUNCTION %[1]s.current_setting(text, bool) RETURNS text LANGUAGE sql AS 'SELECT ''m''';
		INSERT INTO public.block VALUES (1, 1); UPDATE public.block SET body = 'x'; DELETE FROM public.low; TRUNCATE public.low`, role))
	wantRows(t, "entries", logOf(t, s.source, 1, "op, o1, n1, loc"), "I|NULL|1|NULL", "U|1|1|NULL", "D|1|NULL|NULL", "T|NULL|NULL|public.low")
	for _, sql := range []string{"SELECT FROM shardctl.m_log_1_0", "INSERT INTO shardctl.m_log_1_0 (op) VALUES ('R')",
		"CREATE TABLE " + role + ".own (id bigint, workspace_id bigint); CREATE TRIGGER x AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION shardctl.m_capture_1()"} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("the application may: %s", sql)
		}
	}
}

// The owner of a table goes on making partitions, without rights on our schema.
func TestATableOwnerMayMakePartitions(t *testing.T) {
	t.Parallel()
	s := newStage(t, stageSpec{ddl: parts})
	role := s.source.Name + "_owner"
	s.source.Exec(t, fmt.Sprintf(`CREATE ROLE %[1]s; GRANT CREATE ON SCHEMA public TO %[1]s; ALTER TABLE block OWNER TO %[1]s; ALTER TABLE high OWNER TO %[1]s`, role))
	t.Cleanup(func() { s.source.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	s.install(t)
	s.source.Exec(t, "SET ROLE "+role+"; CREATE TABLE high2 PARTITION OF high FOR VALUES FROM (500) TO (1000); INSERT INTO high2 VALUES (501, 1); RESET ROLE")
	wantRows(t, "entries", logOf(t, s.source, 1, "op, n1"), "I|501")
}

// A log takes every value that its table takes.
func TestTypesOfKeys(t *testing.T) {
	t.Parallel()
	cases := []struct{ prepare, typ, value, widen string }{
		{typ: "char(10)", value: "'abc       '", widen: "char(300)"},
		{typ: `"char"`, value: "'x'"},
		{typ: "bit(3)", value: "B'101'", widen: "bit varying(200)"},
		{typ: "varchar(3)", value: "'äöü'", widen: "varchar(300)"},
		{typ: "numeric(4,2)", value: "12.50", widen: "numeric(40,20)"},
		{typ: "timestamptz(0)", value: "'2026-01-02 03:04:05+00'"},
		{prepare: "CREATE DOMAIN public.code AS char(4) NOT NULL CHECK (value <> '')", typ: "public.code", value: "'ab  '"},
		{prepare: "CREATE TYPE public.mood AS ENUM ('so', 'la')", typ: "public.mood", value: "'la'"},
		{typ: "int[]", value: "'{1,2}'"},
		{typ: "char(3)[]", value: `'{"ab ","cd "}'`},
		{prepare: `CREATE COLLATION public.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`, typ: "text COLLATE public.nocase", value: "'Abc'"},
		{typ: "uuid", value: "'00000000-0000-0000-0000-000000000001'"},
		{typ: "bytea", value: `'\x00ff'`},
	}
	var ddl strings.Builder
	var tables []migrate.Table
	for i, c := range cases {
		fmt.Fprintf(&ddl, "%s; CREATE TABLE public.t%d (id %s PRIMARY KEY, workspace_id bigint NOT NULL);\n", c.prepare, i, c.typ)
		tables = append(tables, ownKey(fmt.Sprintf("t%d", i), "workspace_id"))
	}
	s := installed(t, stageSpec{ddl: ddl.String(), tables: tables})
	for i, c := range cases {
		if c.widen != "" {
			s.source.Exec(t, fmt.Sprintf("ALTER TABLE t%d ALTER COLUMN id TYPE %s", i, c.widen))
		}
		s.source.Exec(t, fmt.Sprintf("INSERT INTO t%d VALUES (%s, 1)", i, c.value))
		want := s.source.Value(t, fmt.Sprintf("SELECT id FROM t%d", i))
		s.source.Exec(t, fmt.Sprintf("UPDATE t%[1]d SET workspace_id = 2; DELETE FROM t%[1]d", i))
		wantRows(t, c.typ, logOf(t, s.source, i+1, "op, o1, n1"), "I|NULL|"+want, "U|"+want+"|"+want, "D|"+want+"|NULL")
	}
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{
		ddl:    `CREATE TABLE public."Bl'o$shardctl$""ck%d" ("i d" bigint PRIMARY KEY, "k$shardctl$; --" bigint NOT NULL)`,
		tables: []migrate.Table{ownKey(`Bl'o$shardctl$"ck%d`, "k$shardctl$; --")}, databases: 1, schema: `S'h\%d`})
	s.source.Exec(t, `INSERT INTO public."Bl'o$shardctl$""ck%d" VALUES (1, 2); TRUNCATE public."Bl'o$shardctl$""ck%d"`)
	wantRows(t, "entries", logOf(t, s.source, 1, "op, n1, nkey, loc"), "I|1|2|NULL", `T|NULL|NULL|public."Bl'o$shardctl$""ck%d"`)
	s.dbs[0].Exec(t, `INSERT INTO "S'h\3"."Bl'o$shardctl$""ck%d" VALUES (1, 2)`)
	wantRows(t, "entries", logOf(t, s.dbs[0], 1, "op, n1, nkey, loc"), `I|1|2|S'h\3`)
}

func runSQL(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
