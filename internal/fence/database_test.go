package fence_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// database is the first database with the tables at its locations and all of its
// fences: closed up, guards dormant.
func database(t *testing.T, pattern string) (*pgtest.Database, *pgx.Conn, *layout.Layout) {
	t.Helper()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, tables)
	l := load(t, session(t, dbs[0]), spec(pattern))
	db, name := dbs[1], "db'0"
	ctx, conn := context.Background(), session(t, dbs[1])
	if err := store.CreateDatabase(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := store.SaveControl(ctx, conn, "m", store.Control{Database: name, Owner: store.OwnerSource, Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	for _, d := range l.Spec.Databases {
		o := store.Ownership{Database: d.Name, Shards: l.Spec.Shards.ShardsOf(d.Name), Owner: store.OwnerSource, Epoch: 3}
		if err := store.SaveOwnership(ctx, conn, "m", o); err != nil {
			t.Fatal(err)
		}
	}
	statements := append(fence.DatabaseFunctions(l, name), fence.GuardFunctions(l, name)...)
	for _, schema := range l.Spec.Schemas(name) {
		if schema != "public" {
			db.Exec(t, "CREATE SCHEMA "+schema)
		}
		here := strings.TrimSuffix(tables, "CREATE TABLE plan (id int PRIMARY KEY);")
		if schema == "public" || !l.Spec.Shards.SchemaPerShard() {
			db.Exec(t, "CREATE TABLE "+schema+".plan (id int PRIMARY KEY)")
		}
		if schema != "public" {
			db.Exec(t, "SET search_path = "+schema+"; "+here+"; RESET search_path")
		}
	}
	for _, table := range l.Tables {
		for _, loc := range l.Locations(table, name) {
			for i, r := range table.Source.Relations() {
				relation := postgres.Table(loc.Schema, r.Name.Name)
				if i == 0 {
					relation = l.QualifiedTarget(table, loc)
				}
				statements = append(statements, fence.Closed(l, relation))
			}
			if fence.Guarded(l, table) {
				statements = append(statements, fence.Guard(l, table, loc))
			}
		}
	}
	run(t, conn, statements)
	return db, conn, l
}

// open takes the closed fence of sharded tables down and puts the guards up, on
// every partition by name.
func open(t *testing.T, db *pgtest.Database) {
	t.Helper()
	alter := db.Rows(t, `SELECT format('ALTER TABLE ONLY %s %s TRIGGER %I', tgrelid::regclass,
		CASE tgname WHEN $1 THEN 'DISABLE' ELSE 'ENABLE ALWAYS' END, tgname)
		FROM pg_trigger WHERE tgname IN ($1, $2) AND tgrelid::regclass::text NOT LIKE '%plan'`, logschema.ClosedTrigger("m"), logschema.GuardTrigger("m"))
	db.Exec(t, strings.Join(alter, ";")+"; UPDATE shardctl.control SET owner = database")
}

func TestClosedFenceRefusesEverything(t *testing.T) {
	t.Parallel()
	db, conn, l := database(t, "s_%d")
	at := "SET search_path = s_1, public"
	for _, sql := range []string{
		`INSERT INTO "Bl""ock" VALUES (1, 1)`, `INSERT INTO b1 VALUES (1, 1)`, `INSERT INTO b1a VALUES (1, 1)`, `UPDATE comment SET n = 1`,
		`DELETE FROM b2`, `TRUNCATE react`, `TRUNCATE b1 CASCADE`, `COPY comment FROM PROGRAM 'true'`, `INSERT INTO plan VALUES (1)`,
	} {
		expect(t, db, at, sql, fence.Refused, "closed", "epoch 3")
		expect(t, db, at+"; SET session_replication_role = replica", sql, fence.Refused)
	}
	expect(t, db, at+"; SET shardctl.applier = 'm'", `INSERT INTO "Bl""ock" VALUES (1, 1)`, "")
	state := func(want fence.DatabaseState) {
		t.Helper()
		got, err := fence.ReadDatabase(context.Background(), conn, l, "db'0")
		if err != nil || got != want {
			t.Errorf("state %v (%v), want %v", got, err, want)
		}
	}
	state(fence.DatabaseState{Closed: fence.Enabled, Guard: fence.Disabled, Everywhere: fence.Enabled})
	open(t, db)
	state(fence.DatabaseState{Closed: fence.Disabled, Guard: fence.Enabled, Everywhere: fence.Enabled})
	db.Exec(t, "ALTER TABLE s_0.b1a DISABLE TRIGGER "+logschema.GuardTrigger("m"))
	state(fence.DatabaseState{Closed: fence.Disabled, Guard: fence.Mixed, Everywhere: fence.Enabled})
	expect(t, db, at, `INSERT INTO plan VALUES (1)`, fence.Refused)
}

// keyAt gives a key of a shard.
func keyAt(t *testing.T, conn *pgx.Conn, l *layout.Layout, shard int) int {
	t.Helper()
	var key int
	sql := "SELECT min(k) FROM generate_series(1, 100) k WHERE " + l.ShardSQL(l.Tables[0], "k") + " = $1"
	if err := conn.QueryRow(context.Background(), sql, shard).Scan(&key); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestGuardAtASchemaPerShard(t *testing.T) {
	t.Parallel()
	db, conn, l := database(t, "s_%d")
	open(t, db)
	k0, k1, k2 := keyAt(t, conn, l, 0), keyAt(t, conn, l, 1), keyAt(t, conn, l, 2)
	at := "SET search_path = s_1, public"
	good := fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (1, %d)`, k1)
	expect(t, db, at, good, "")
	expect(t, db, at, fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (2, %d)`, k0), fence.Misplaced, "shard 0", "db'0")
	expect(t, db, at, fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (2, %d)`, k2), fence.Misplaced, "shard 2", "db1")
	expect(t, db, at, `INSERT INTO "Bl""ock" VALUES (2, NULL)`, fence.Misplaced, "shard none")
	expect(t, db, at, fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d`, k2), fence.Misplaced)
	expect(t, db, at+"; SET session_replication_role = replica", fmt.Sprintf(`UPDATE b1a SET "Ws" = %d`, k2), fence.Misplaced)
	expect(t, db, at, `UPDATE "Bl""ock" SET id = 2000`, "")
	expect(t, db, at, `INSERT INTO comment VALUES (1, 2000)`, "")
	expect(t, db, at, `INSERT INTO react VALUES (1, 1)`, "")
	expect(t, db, at, `INSERT INTO react VALUES (2, 99)`, fence.Misplaced, "parent")
	expect(t, db, at, `UPDATE react SET comment_id = 99`, fence.Misplaced, "parent")
	expect(t, db, at, `INSERT INTO comment VALUES (2, NULL)`, fence.Misplaced, "no key")
	expect(t, db, "SET search_path = s_0, public", `INSERT INTO react VALUES (1, 1)`, fence.Misplaced, "parent") // it is in s_1
	expect(t, db, at+"; SET shardctl.applier = 'm'", `INSERT INTO react VALUES (3, 99)`, "")
	expect(t, db, at, `DELETE FROM react WHERE id = 3`, "")
}

func TestGuardAtOneSchema(t *testing.T) {
	t.Parallel()
	db, conn, l := database(t, "app")
	open(t, db)
	at := "SET search_path = app"
	for shard, code := range map[int]string{0: "", 1: "", 2: fence.Misplaced, 3: fence.Misplaced} {
		expect(t, db, at, fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (%d, %d)`, shard, keyAt(t, conn, l, shard)), code)
	}
	expect(t, db, at, fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d WHERE id = 0`, keyAt(t, conn, l, 1)), "")
	expect(t, db, at, `INSERT INTO comment VALUES (1, 0)`, "")
	expect(t, db, at, `INSERT INTO react VALUES (2, 2)`, fence.Misplaced, "parent")
}

func TestOneShardHasNoGuard(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, tables)
	s := spec("app")
	s.Shards.Count, s.Shards.Placement = 1, []string{"db'0"}
	l := load(t, session(t, db), s)
	if fence.Guarded(l, l.Tables[0]) || len(fence.GuardFunctions(l, "db'0")) != 0 {
		t.Error("a guard with nothing to guard")
	}
	if ddl.Script(fence.SourceDDL(l, "db'0")) == "" {
		t.Error("no fence on the source")
	}
}
