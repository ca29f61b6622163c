package layout_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func session(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(context.Background(), postgres.Target{Name: "source", DSN: migrate.Secret(db.DSN())}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

const schema = `CREATE TABLE block (id uuid PRIMARY KEY, workspace_id int NOT NULL, version int);
CREATE TABLE comment (id bigint PRIMARY KEY, block_id uuid NOT NULL, body text);
CREATE TABLE "Re""act" (id bigint PRIMARY KEY, "Comment" int NOT NULL);
CREATE TABLE plan (id int PRIMARY KEY, double int GENERATED ALWAYS AS (id * 2) STORED);`

func name(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }

// spec is four shards of two databases over the tables of schema; change may
// bend it.
func spec(pattern string, change func(*migrate.Spec)) *migrate.Spec {
	s := &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db0"}, {Name: "db1"}},
		Shards:    migrate.Shards{Count: 4, Schema: pattern, Hash: "postgres", Placement: []string{"db0", "db0", "db1", "db1"}},
		Tables: []migrate.Table{
			{Name: name("block"), Key: migrate.Key{Column: "workspace_id"}, As: "blk"},
			{Name: name("comment"), Key: migrate.Key{From: name("block"), Via: "block_id", StoreAs: "workspace_id"}},
			{Name: name(`Re"act`), Key: migrate.Key{From: name("comment"), Via: "Comment"}},
			{Name: name("plan"), Everywhere: true},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func load(t *testing.T, db *pgtest.Database, s *migrate.Spec) *layout.Layout {
	t.Helper()
	l, err := layout.Load(context.Background(), session(t, db), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKeysAreFoundThroughParents(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema+`INSERT INTO block VALUES ('00000000-0000-0000-0000-000000000001', 77);
		INSERT INTO comment VALUES (5, '00000000-0000-0000-0000-000000000001'), (6, gen_random_uuid());
		INSERT INTO "Re""act" VALUES (1, 5), (2, 6), (3, 9)`)
	l := load(t, db, spec("s_%d", nil))
	react := l.Table(name(`Re"act`))
	joins, key := react.KeyFrom("x")
	got := db.Rows(t, "SELECT x.id, "+key+" FROM "+react.QualifiedSource()+" x"+joins+" ORDER BY 1")
	if s := strings.Join(got, " "); s != "1|77 2|NULL 3|NULL" {
		t.Errorf("keys of react: %s", s)
	}
	if joins, key = l.Tables[0].KeyFrom("x"); joins != "" || key != `x."workspace_id"` {
		t.Errorf("own key: %q %q", joins, key)
	}
	if react.Root() != l.Tables[0] || react.Family != "int" || len(l.Tables[0].Descendants()) != 2 {
		t.Errorf("chain of react: root %s, family %s", react.Root().Name(), react.Family)
	}
	if joins, key = react.TargetKeyFrom("x", "s_1"); !strings.Contains(joins, `"s_1"."comment" x_p1`) || key != `x_p1."workspace_id"` {
		t.Errorf("a stored key does not end the chain on a database: %q %q", joins, key)
	}
}

func TestLocations(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	for pattern, want := range map[string]string{
		"s_%02d": `"s_02"."blk" "s_03"."blk" "public"."plan"`,
		"app":    `"app"."blk" "app"."plan"`,
	} {
		l := load(t, db, spec(pattern, nil))
		var got []string
		for _, table := range []*layout.Table{l.Tables[0], l.Tables[3]} {
			for _, loc := range l.Locations(table, "db1") {
				got = append(got, l.QualifiedTarget(table, loc))
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: locations %s, want %s", pattern, s, want)
		}
	}
}

func TestWhatTheColumnsOfACopyAre(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	l := load(t, db, spec("app", nil))
	if got := layout.Names(l.Tables[3].Copied()); len(got) != 1 || got[0] != "id" {
		t.Errorf("copied columns of plan: %v, the generated one is computed by the server", got)
	}
}

func TestOneShardNeedsNoKey(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	l := load(t, db, spec("app", func(s *migrate.Spec) {
		s.Shards.Count, s.Shards.Placement = 1, []string{"db0"}
		for i := range s.Tables {
			s.Tables[i].Key = migrate.Key{}
		}
	}))
	if got := l.ShardSQL(l.Tables[0], "NULL"); got != "0" {
		t.Errorf("shard of a row: %s", got)
	}
	if joins, key := l.Tables[0].KeyFrom("x"); joins != "" || key != "NULL" {
		t.Errorf("key of a row: %q %q", joins, key)
	}
}

func TestRowsWithoutAKey(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	to := func(n int) migrate.Stray { return migrate.Stray{Policy: "shard", Shard: n} }
	l := load(t, db, spec("app", func(s *migrate.Spec) { s.Tables[1].Orphans = to(2) }))
	if got := db.Value(t, "SELECT "+l.ShardSQL(l.Tables[1], "NULL::int")+", "+l.ShardSQL(l.Tables[0], "NULL::int")); got != "2|NULL" {
		t.Errorf("shards of rows without a key: %s", got)
	}
	if l.Tables[2].NoKey != to(2) {
		t.Errorf("a grandchild does not follow its orphaned parent: %v", l.Tables[2].NoKey)
	}
	_, err := layout.Load(context.Background(), session(t, db), spec("app", func(s *migrate.Spec) {
		s.Tables[1].Orphans, s.Tables[2].Orphans = to(2), to(1)
	}))
	refused(t, err, "key.policies", `public."Re""act"`)
}

func TestSpecsThatDoNotFit(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema+`ALTER TABLE block ADD price numeric, ADD twice int GENERATED ALWAYS AS (workspace_id * 2) STORED, ADD loose text COLLATE "C";
		CREATE TABLE pair (a int, b int, PRIMARY KEY (a, b)); CREATE TABLE of_text (id text PRIMARY KEY, k text);
		CREATE COLLATION nd (provider = icu, locale = 'und', deterministic = false);
		ALTER TABLE of_text ADD nd text COLLATE nd;
		CREATE DOMAIN wid AS bigint; CREATE TABLE dom (id int PRIMARY KEY, w wid);
		CREATE TABLE made (a int, id int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY)`)
	for _, c := range []struct {
		what, code, object string
		change             func(*migrate.Spec)
	}{
		{"missing key", "key.missing_column", "public.block.nope", func(s *migrate.Spec) { s.Tables[0].Key.Column = "nope" }},
		{"missing via", "key.missing_column", "public.comment.nope", func(s *migrate.Spec) { s.Tables[1].Key.Via = "nope" }},
		{"missing version", "version.missing_column", "public.block.nope", func(s *migrate.Spec) { s.Tables[0].Version = "nope" }},
		{"no hash", "key.type", "public.block.price", func(s *migrate.Spec) { s.Tables[0].Key.Column = "price" }},
		{"via of another type", "key.via", "public.comment.body", func(s *migrate.Spec) { s.Tables[1].Key.Via = "body" }},
		{"store_as of ours", "column.reserved", "public.comment.shardctl_key", func(s *migrate.Spec) { s.Tables[1].Key.StoreAs = "shardctl_key" }},
		{"store_as that is there", "key.store_as", "public.comment.body", func(s *migrate.Spec) { s.Tables[1].Key.StoreAs = "body" }},
		{"no key", "key.none", "public.block", func(s *migrate.Spec) { s.Tables[0].Key = migrate.Key{} }},
		{"generated primary key", "table.generated_primary_key", "public.made.id", func(s *migrate.Spec) {
			s.Tables = append(s.Tables, migrate.Table{Name: name("made"), Key: migrate.Key{Column: "a"}})
		}},
		{"generated key", "key.generated", "public.block.twice", func(s *migrate.Spec) { s.Tables[0].Key.Column = "twice" }},
		{"two families", "key.family", "public.of_text.k", func(s *migrate.Spec) {
			s.Tables = append(s.Tables, migrate.Table{Name: name("of_text"), Key: migrate.Key{Column: "k"}})
		}},
		{"loose collation", "key.collation", "public.of_text.nd", func(s *migrate.Spec) {
			s.Tables = append(s.Tables, migrate.Table{Name: name("of_text"), Key: migrate.Key{Column: "nd"}})
		}},
		{"parent with two columns", "key.via", "public.comment.block_id", func(s *migrate.Spec) {
			s.Tables = append(s.Tables, migrate.Table{Name: name("pair"), Key: migrate.Key{Column: "a"}})
			s.Tables[1].Key.From = name("pair")
		}},
		{"parent that is everywhere", "key.parent", "public.comment", func(s *migrate.Spec) { s.Tables[1].Key.From = name("plan") }},
	} {
		_, err := layout.Load(context.Background(), session(t, db), spec("app", c.change))
		t.Run(c.what, func(t *testing.T) { refused(t, err, c.code, c.object) })
	}
	l := load(t, db, spec("app", func(s *migrate.Spec) {
		s.Tables = append(s.Tables, migrate.Table{Name: name("dom"), Key: migrate.Key{Column: "w"}})
	}))
	if got := l.Tables[4].Family; got != "int" {
		t.Errorf("a domain over bigint hashes as %q", got)
	}
}

func refused(t *testing.T, err error, code, object string) {
	t.Helper()
	var f *migrate.Failure
	if !errors.As(err, &f) || f.Code != code || f.Object != object || f.Exit != migrate.ExitRefused || f.Hint == "" {
		t.Errorf("%v, want %s of %s", err, code, object)
	}
}
