package target_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
)

// inventory lists all of a database that the server does not bring itself, but the
// tables of our state.
func inventory(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return strings.Join(db.Rows(t, `SELECT pg_describe_object(c.classid, c.oid, 0) FROM (
		SELECT 'pg_class'::regclass AS classid, oid, relnamespace AS ns FROM pg_class UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace FROM pg_proc
		UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace FROM pg_type UNION ALL SELECT 'pg_collation'::regclass, oid, collnamespace FROM pg_collation
		UNION ALL SELECT 'pg_trigger'::regclass, oid, 0 FROM pg_trigger WHERE tgname NOT LIKE 'RI\_%' UNION ALL SELECT 'pg_namespace'::regclass, oid, 0 FROM pg_namespace) c
		WHERE c.oid >= 16384 AND c.ns NOT IN ('pg_toast'::regnamespace) AND (c.ns <> 'shardctl'::regnamespace OR pg_describe_object(c.classid, c.oid, 0) LIKE '%m\_%') ORDER BY 1`), "\n")
}

func TestAbortLeavesNothingAndTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments+reactions, oddSpec("Shard %02d"), "db0")
	db := r.databases["db0"]
	db.Exec(t, `CREATE SCHEMA lib; CREATE TYPE lib."Mood" AS ENUM ('ok', 'it''s bad\'); CREATE TABLE public.mine (m lib."Mood")`) // the user's own, and the same
	before := inventory(t, db)
	r.prepare(t, "db0")
	r.finish(t, "db0")
	r.turn(t, "db0", target.Open)
	if err := ddl.RemoveAll(t.Context(), r.conns["source"], r.conns["db0"], "m", "db0"); err != nil {
		t.Fatal(err)
	}
	if after := inventory(t, db); after != before {
		t.Errorf("after abort:\n%s\nbefore:\n%s", after, before)
	}
	left, err := store.Registered(t.Context(), r.conns["source"], "m", "db0")
	if err != nil || len(left) != 0 {
		t.Errorf("registered still: %v (%v)", left, err)
	}
	r.prepare(t, "db0") // and anew
}

func TestAbortKeepsWhatOthersNeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	db := r.databases["db0"]
	db.Exec(t, `CREATE TABLE "Shard 00".mine (m lib."Mood")`)
	err := ddl.RemoveAll(t.Context(), r.conns["source"], r.conns["db0"], "m", "db0")
	refused(t, err, "remove.in_use", "db0")
	show(t, db, `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'Shard%' OR nspname = 'lib' ORDER BY 1`, "Shard 00", "lib")
	db.Exec(t, `DROP TABLE "Shard 00".mine`)
	if err := ddl.RemoveAll(t.Context(), r.conns["source"], r.conns["db0"], "m", "db0"); err != nil {
		t.Fatal(err)
	}
	show(t, db, `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'Shard%' OR nspname = 'lib' ORDER BY 1`)
}

func TestNothingOfTheUsersIsTouched(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	db := r.databases["db0"]
	for _, c := range []struct{ there, code, object string }{
		{`CREATE SCHEMA "Shard 01"; CREATE TABLE "Shard 01".comment AS SELECT 1 AS a`, "target.not_ours", `"Shard 01"."comment"`},
		{`CREATE SCHEMA "Shard 01"; CREATE VIEW "Shard 01".comment AS SELECT 1 AS a`, "target.not_ours", `"Shard 01"."comment"`},
		{`CREATE SCHEMA "My ""App"; CREATE TABLE "My ""App".plan (id int)`, "target.not_ours", `"My ""App"."plan"`},
		{`CREATE SCHEMA "My ""App"; CREATE SEQUENCE "My ""App"."S ""q"`, "target.not_ours", `"My ""App"."S ""q"`},
		{`CREATE SCHEMA lib; CREATE TYPE lib."Mood" AS ENUM ('ok')`, "target.differs", `type lib."Mood"`},
		{`CREATE SCHEMA lib; CREATE FUNCTION lib.diff(float8, float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 1.0::float8'`, "target.differs", "lib.diff"},
		{`CREATE SCHEMA lib; CREATE COLLATION lib.de (provider = icu, locale = 'fr')`, "target.differs", "lib.de"},
	} {
		db.Exec(t, c.there)
		before := inventory(t, db)
		refused(t, r.tryPrepare("db0"), c.code, c.object)
		if after := inventory(t, db); after != before {
			t.Errorf("a refused prepare left:\n%s\nbefore:\n%s", after, before)
		}
		schema, _, _ := strings.Cut(strings.TrimPrefix(c.there, "CREATE SCHEMA "), ";")
		db.Exec(t, "DROP SCHEMA "+schema+" CASCADE")
	}
	r.prepare(t, "db0")
}

func TestATableMadeByAnotherMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	r.databases["db0"].Exec(t, `DROP TABLE "Shard 00".comment; CREATE TABLE "Shard 00".comment AS SELECT 1 AS a`)
	refused(t, r.tryPrepare("db0"), "target.not_ours", `"Shard 00"."comment"`)
}

// TestStoppedAnywhere ends Prepare and Finish at ever later moments, until they get
// through; what stands in the end is what one run makes.
func TestStoppedAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments+reactions, oddSpec("Shard %02d"), "db0", "db1")
	want := map[string]string{}
	for _, step := range []struct {
		name string
		run  func(ctx context.Context, database string) error
	}{
		{"prepare", func(ctx context.Context, d string) error {
			return target.Prepare(ctx, session(t, r.source), session(t, r.databases[d]), r.layout, d)
		}},
		{"finish", func(ctx context.Context, d string) error {
			return target.Finish(ctx, session(t, r.source), session(t, r.databases[d]), r.layout, d, nil)
		}},
	} {
		if err := step.run(t.Context(), "db1"); err != nil {
			t.Fatal(err)
		}
		want[step.name] = strings.ReplaceAll(strings.ReplaceAll(inventory(t, r.databases["db1"]), "Shard 02", "Shard 00"), "Shard 03", "Shard 01")
		stopped := 0
		for after := 5 * time.Millisecond; ; after += after / 2 {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			err := step.run(ctx, "db0")
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s stopped after %s: %v", step.name, after, err)
			}
			stopped++
		}
		if stopped < 3 {
			t.Errorf("%s was stopped %d times only", step.name, stopped)
		}
		if got := inventory(t, r.databases["db0"]); !sameLines(got, want[step.name]) {
			t.Errorf("%s in pieces:\n%s\nat once:\n%s", step.name, got, want[step.name])
		}
	}
}

// sameLines compares inventories but for the numbers in names of shards' functions.
func sameLines(a, b string) bool {
	clean := func(s string) string {
		return strings.NewReplacer("_2(", "_0(", "_3(", "_1(").Replace(s)
	}
	as, bs := strings.Split(clean(a), "\n"), strings.Split(clean(b), "\n")
	seen := map[string]int{}
	for _, line := range as {
		seen[line]++
	}
	for _, line := range bs {
		seen[line]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}
