package moved_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/moved"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func session(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), postgres.Target{Name: "source", DSN: migrate.Secret(db.DSN())}, "test")
	must(t, err)
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func name(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }

// rows is the group with rows, one of them an orphan, and a table of another's.
const rows = `CREATE TABLE "Bl""ock" (id int PRIMARY KEY, ws int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE b1 PARTITION OF "Bl""ock" FOR VALUES FROM (0) TO (50);
CREATE TABLE b2 PARTITION OF "Bl""ock" DEFAULT;
CREATE TABLE comment (id serial PRIMARY KEY, block_id int REFERENCES "Bl""ock");
CREATE TABLE plan (id int PRIMARY KEY);
CREATE TABLE other (id int);
INSERT INTO "Bl""ock" SELECT i, i FROM generate_series(1, 100) i;
INSERT INTO comment (block_id) SELECT id FROM "Bl""ock";
INSERT INTO plan VALUES (1); INSERT INTO other VALUES (1);`

// cutOver is a source whose rows two databases own, fences up.
func cutOver(t *testing.T, orphans string) (*pgtest.Database, *layout.Layout) {
	t.Helper()
	db := pgtest.NewDatabase(t)
	db.Exec(t, rows)
	conn := session(t, db)
	spec := &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db1"}, {Name: "db0"}},
		Shards:    migrate.Shards{Count: 4, Schema: "s%d", Hash: "postgres", Placement: []string{"db0", "db0", "db1", "db1"}},
		Tables: []migrate.Table{
			{Name: name(`Bl"ock`), Key: migrate.Key{Column: "ws"}},
			{Name: name("comment"), Key: migrate.Key{From: name(`Bl"ock`), Via: "block_id"}, Orphans: migrate.Stray{Policy: orphans}, NullKeys: migrate.Stray{Policy: orphans}},
			{Name: name("plan"), Everywhere: true},
		},
	}
	l, err := layout.Load(t.Context(), conn, spec)
	must(t, err)
	must(t, store.CreateSource(t.Context(), conn))
	must(t, store.InsertMigration(t.Context(), conn, store.Migration{Name: "m", Phase: migrate.Completed, SpecDigest: "d", Spec: []byte(`{}`), SystemIdentifier: "1"}))
	statements := fence.SourceFunctions(l)
	for _, d := range spec.Databases {
		must(t, store.SaveOwnership(t.Context(), conn, "m", store.Ownership{Database: d.Name, Shards: spec.Shards.ShardsOf(d.Name), Owner: d.Name, Epoch: 2}))
	}
	for _, table := range l.Tables {
		statements = append(statements, fence.SourceTriggers(l, table)...)
	}
	must(t, ddl.Create(t.Context(), conn, conn, statements))
	must(t, fence.Enable(t.Context(), conn, l, "db0", "db1"))
	return db, l
}

// left tells what is on the source, and whether it was noted that rows are gone.
func left(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return db.Value(t, `SELECT (SELECT count(*) FROM "Bl""ock"), (SELECT count(*) FROM comment), (SELECT count(*) FROM plan), (SELECT count(*) FROM other),
	(SELECT details ? 'source_dropped_at' FROM shardctl.migration)`)
}

const whole, gone = "100|100|1|1|f", "0|0|1|1|t"

func TestTheMovedRowsGoAndFencesStay(t *testing.T) {
	t.Parallel()
	db, l := cutOver(t, "refuse")
	for range 2 { // a second time there is nothing
		must(t, moved.Drop(t.Context(), session(t, db), l))
		if got := left(t, db); got != gone {
			t.Errorf("left: %s, want %s", got, gone)
		}
	}
	states, err := fence.SourceStates(t.Context(), session(t, db), l)
	if err != nil || states["db0"] != fence.Enabled || states["db1"] != fence.Enabled {
		t.Errorf("fences: %v, %v", states, err)
	}
	if n := db.Value(t, "SELECT nextval('comment_id_seq')"); n != "101" {
		t.Errorf("the sequence went back to %s", n)
	}
}

// TestNothingElseIsReached: each thing that a TRUNCATE would reach, or rows that are
// here only, are named, and nothing is changed. Without the check by name the server
// refuses the first kind alone.
func TestNothingElseIsReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, orphans, sql, code, object string }{
		{"a foreign key of another table", "refuse", `ALTER TABLE other ADD CONSTRAINT o FOREIGN KEY (id) REFERENCES "Bl""ock" NOT VALID`, "drop.foreign_key", `public."Bl""ock"`},
		{"a foreign key to a partition", "refuse", `ALTER TABLE other ADD FOREIGN KEY (id) REFERENCES b1`, "drop.foreign_key", "public.b1"},
		{"a foreign key of an everywhere table", "refuse", `ALTER TABLE plan ADD FOREIGN KEY (id) REFERENCES comment`, "drop.foreign_key", "public.comment"},
		{"a trigger that fires always", "refuse", `CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM other; RETURN NULL; END';
			CREATE TRIGGER mine AFTER TRUNCATE ON b2 EXECUTE FUNCTION f(); ALTER TABLE b2 ENABLE ALWAYS TRIGGER mine`, "drop.trigger", "public.b2"},
		{"a publication", "refuse", `CREATE PUBLICATION p FOR TABLE comment`, "drop.publication", "public.comment"},
		{"rows without a key", "skip", `SET session_replication_role = replica; SET shardctl.applier = 'm'; INSERT INTO comment (block_id) VALUES (777); DELETE FROM comment WHERE id = 1`, "drop.keyless_rows", "public.comment"},
		{"a fence that is down", "refuse", `ALTER TABLE ONLY b1 DISABLE TRIGGER ALL`, "drop.fence", "source"},
		{"shards of the source", "refuse", `UPDATE shardctl.ownership SET owner = 'source' WHERE database = 'db1'`, "drop.source_owns", "db1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, l := cutOver(t, c.orphans)
			db.Exec(t, c.sql)
			err := moved.Drop(t.Context(), session(t, db), l)
			var many migrate.Failures
			var f *migrate.Failure
			if errors.As(err, &many) {
				f = many[0]
			} else if !errors.As(err, &f) {
				t.Fatalf("error: %v", err)
			}
			if f.Code != c.code || f.Object != c.object || f.Exit != migrate.ExitRefused || f.Hint == "" {
				t.Errorf("refused with %s at %s, exit %d: %v", f.Code, f.Object, f.Exit, err)
			}
			if got := left(t, db); got != whole {
				t.Errorf("left: %s, want %s", got, whole)
			}
		})
	}
}

// TestWhatWouldNotBeReachedIsLetBe: keys among the tables, triggers that do not fire for
// us, publications without truncate.
func TestWhatWouldNotBeReachedIsLetBe(t *testing.T) {
	t.Parallel()
	db, l := cutOver(t, "skip")
	db.Exec(t, `CREATE PUBLICATION p FOR TABLE comment WITH (publish = 'insert');
	CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM other; RETURN NULL; END';
	CREATE TRIGGER mine AFTER TRUNCATE ON comment EXECUTE FUNCTION f()`)
	must(t, moved.Drop(t.Context(), session(t, db), l))
	if got := left(t, db); got != gone {
		t.Errorf("left: %s, want %s", got, gone)
	}
}

// TestAReaderIsGivenWayTo: while it reads, others still get in behind our tries.
func TestAReaderIsGivenWayTo(t *testing.T) {
	t.Parallel()
	db, l := cutOver(t, "refuse")
	reader, err := db.Connect(t).Begin(t.Context())
	must(t, err)
	_, err = reader.Exec(t.Context(), "SELECT FROM comment")
	must(t, err)
	done := make(chan error, 1)
	conn := session(t, db)
	go func() { done <- moved.Drop(context.Background(), conn, l) }()
	pgtest.Eventually(t, 20*time.Second, func() bool {
		return db.Value(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") != "0"
	})
	for range 3 {
		db.Exec(t, "SET statement_timeout = '5s'; SELECT FROM comment LIMIT 1")
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait for the reader: %v", err)
	default:
	}
	must(t, reader.Commit(t.Context()))
	must(t, <-done)
	if got := left(t, db); got != gone {
		t.Errorf("left: %s, want %s", got, gone)
	}
}
