package ddl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func session(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), postgres.Target{Name: db.Name, DSN: migrate.Secret(db.DSN())}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

const place = store.PlaceSource

// source has a partitioned table and an ordinary one, each with a trigger of ours.
func source(t *testing.T) (*pgtest.Database, *pgx.Conn) {
	t.Helper()
	db := pgtest.NewDatabase(t)
	db.Exec(t, `CREATE TABLE "P ON p" (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF "P ON p" DEFAULT; CREATE TABLE plain (id int)`)
	conn := session(t, db)
	if err := store.CreateSource(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	statements := []ddl.Statement{ddl.TriggerFunction("m", place, `shardctl."m_f"`, " BEGIN RETURN NULL; END ")}
	for _, relation := range []string{`"public"."P ON p"`, `"public"."plain"`} {
		statements = append(statements, ddl.Trigger("m", place, "shardctl_m_t", relation, "AFTER INSERT", `FOR EACH ROW EXECUTE FUNCTION shardctl."m_f"()`, "ENABLE ALWAYS"))
	}
	if err := ddl.Create(t.Context(), conn, conn, statements); err != nil {
		t.Fatal(err)
	}
	return db, conn
}

func TestTriggersAreDisabledAtOnceAndDroppedLater(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	ctx := t.Context()
	reader, err := db.Connect(t).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(ctx, `SELECT FROM part`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- ddl.RemoveAll(ctx, conn, conn, "m", place) }()
	pgtest.Eventually(t, 20*time.Second, func() bool {
		return db.Value(t, `SELECT count(*) FROM pg_trigger WHERE tgname = 'shardctl_m_t' AND tgenabled <> 'D'`) == "0"
	})
	select {
	case err := <-done:
		t.Fatalf("dropped under a reader: %v", err)
	default:
	}
	if _, err := db.Connect(t).Exec(ctx, `SET statement_timeout = '10s'; INSERT INTO "P ON p" VALUES (1)`); err != nil {
		t.Errorf("a writer meanwhile: %v", err)
	}
	if err := reader.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := db.Value(t, `SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'shardctl%'), (SELECT count(*) FROM pg_proc WHERE proname = 'm_f'), (SELECT count(*) FROM shardctl.registry WHERE removed_at IS NULL)`); got != "0|0|0" {
		t.Errorf("triggers, functions and entries left: %s", got)
	}
}

func TestRemoveWhatIsGoneAlready(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	db.Exec(t, `DROP TABLE plain; DROP TRIGGER shardctl_m_t ON "P ON p"; DROP FUNCTION shardctl.m_f()`)
	if err := ddl.RemoveAll(t.Context(), conn, conn, "m", place); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyTheRegistryIsRemoved: what looks like ours but is not registered stays.
func TestOnlyTheRegistryIsRemoved(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	db.Exec(t, `CREATE TRIGGER shardctl_m_other AFTER INSERT ON plain FOR EACH ROW EXECUTE FUNCTION shardctl.m_f()`)
	err := ddl.RemoveAll(t.Context(), conn, conn, "m", place)
	var f *migrate.Failure
	if !errors.As(err, &f) || f.Code != "remove.in_use" || f.Exit != migrate.ExitRefused || !strings.Contains(f.Message, "trigger shardctl_m_other on table") {
		t.Errorf("a function that another trigger needs: %v", err)
	}
	if got := db.Value(t, `SELECT string_agg(tgname, ' ') FROM pg_trigger WHERE tgname LIKE 'shardctl%'`); got != "shardctl_m_other" {
		t.Errorf("triggers: %s", got)
	}
}

func TestAFailedBatchSaysWhere(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	err := ddl.Create(t.Context(), conn, conn, []ddl.Statement{
		{SQL: "CREATE TABLE public.fine (id int)", Object: store.Object{Migration: "m", Place: place, Kind: "table", Name: "public.fine", Undo: "DROP TABLE IF EXISTS public.fine"}},
		{SQL: "CREATE TABLE public.plain (id int)"},
	})
	if postgres.SQLState(err) != "42P07" || fmt.Sprint(err)[:len("CREATE TABLE public.plain")] != "CREATE TABLE public.plain" {
		t.Errorf("error: %v", err)
	}
	if got := db.Value(t, `SELECT to_regclass('public.fine')`); got != "NULL" {
		t.Error("half of a batch was kept")
	}
	if got := db.Value(t, `SELECT count(*) FROM shardctl.registry WHERE name = 'public.fine'`); got != "1" {
		t.Error("it was not registered before it was made")
	}
}

func TestLackingTriggers(t *testing.T) {
	t.Parallel()
	_, conn := source(t)
	there := ddl.Trigger("m", place, "shardctl_m_t", `"public"."P ON p"`, "", "", "DISABLE")
	other := ddl.Trigger("m", place, "shardctl_m_u", `"public"."P ON p"`, "", "", "DISABLE")
	lacking, err := ddl.LackingTriggers(t.Context(), conn, []ddl.Statement{there, other})
	if err != nil || len(lacking) != 1 || lacking[0].Object.Name != other.Object.Name {
		t.Errorf("lacking: %v (%v)", lacking, err)
	}
}

func TestTriggersOfDroppedTablesAreForgotten(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	registered := func() string {
		return db.Value(t, `SELECT string_agg(name, ', ' ORDER BY name) FROM shardctl.registry WHERE removed_at IS NULL AND kind = 'trigger'`)
	}
	before := registered()
	for _, step := range []struct{ sql, want string }{
		{`SELECT 1`, before},
		{`ALTER TABLE "P ON p" RENAME TO elsewhere; CREATE TABLE public.unlike (id int)`, `"shardctl_m_t" ON "public"."plain"`},
	} {
		db.Exec(t, step.sql)
		if err := ddl.ForgetTriggers(t.Context(), conn, conn, "m", place); err != nil {
			t.Fatal(err)
		}
		if got := registered(); got != step.want {
			t.Errorf("after %s: %s, want %s", step.sql, got, step.want)
		}
	}
}

func TestTablesInACircleGo(t *testing.T) {
	t.Parallel()
	db, conn := source(t)
	statements := []ddl.Statement{
		{SQL: "CREATE TABLE public.a (id int PRIMARY KEY, b int)", Object: store.Object{Migration: "m", Place: "db0", Kind: "table", Name: `"public"."a"`, Undo: `DROP TABLE IF EXISTS "public"."a"`}},
		{SQL: "CREATE TABLE public.b (id int PRIMARY KEY, a int REFERENCES public.a)", Object: store.Object{Migration: "m", Place: "db0", Kind: "table", Name: `"public"."b"`, Undo: `DROP TABLE IF EXISTS "public"."b"`}},
		ddl.Alter("ALTER TABLE public.a ADD FOREIGN KEY (b) REFERENCES public.b"),
	}
	if err := ddl.Create(t.Context(), conn, conn, statements); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "CREATE TABLE theirs (b int REFERENCES b)")
	if err := ddl.RemoveAll(t.Context(), conn, conn, "m", "db0"); err == nil {
		t.Error("a table that others refer to was removed")
	}
	db.Exec(t, "DROP TABLE theirs")
	if err := ddl.RemoveAll(t.Context(), conn, conn, "m", "db0"); err != nil {
		t.Fatal(err)
	}
	if left := db.Value(t, "SELECT count(*) FROM pg_class WHERE relname IN ('a', 'b') AND relkind = 'r'"); left != "0" {
		t.Errorf("%s tables are left", left)
	}
}
