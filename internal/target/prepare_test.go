package target_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// odd is a group with everything that is hard to carry over: names that need
// quotes and fill an identifier, types and functions of the user's, partitions,
// sequences, constraints of all kinds, triggers, grants, row security.
const odd = `
CREATE SCHEMA "My ""App"; CREATE SCHEMA lib;
CREATE TYPE lib."Mood" AS ENUM ('ok', 'it''s bad\');
CREATE DOMAIN lib.amount AS numeric(12,2) DEFAULT 1.5 CONSTRAINT positive CHECK (VALUE > 0);
CREATE DOMAIN lib.few AS lib."Mood"[] CHECK (cardinality(VALUE) < 9);
CREATE TYPE lib.pair AS (a lib.amount, m lib.few);
CREATE FUNCTION lib.diff(float8, float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT $1 - $2';
CREATE TYPE lib.span AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = lib.diff);
CREATE COLLATION lib.de (provider = icu, locale = 'de');
CREATE FUNCTION lib.code(n bigint, m lib."Mood" DEFAULT 'ok') RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 'c' || n || m; END $$;
CREATE FUNCTION lib.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW."Note" := 'touched ' || TG_ARGV[0]; RETURN NEW; END $$;
CREATE FUNCTION lib.seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE SEQUENCE "My ""App"."S ""q" INCREMENT BY 5 MINVALUE 5 CACHE 3;
CREATE TABLE "My ""App".plan (id serial PRIMARY KEY, title text UNIQUE, parent int REFERENCES "My ""App".plan);
CREATE TABLE "My ""App"."Bl""ock" (
  gone text,
  id uuid DEFAULT gen_random_uuid(),
  "Ws" bigint NOT NULL,
  no bigint GENERATED ALWAYS AS IDENTITY (START WITH 100),
  n bigint DEFAULT nextval('"My ""App"."S ""q"'::regclass) NOT NULL,
  code text DEFAULT lib.code(7),
  fee lib.amount,
  moods lib."Mood"[] DEFAULT '{ok}',
  "both" lib.pair,
  during lib.span,
  title text COLLATE lib.de,
  twice bigint GENERATED ALWAYS AS (no * 2) STORED,
  "Note" varchar(40) DEFAULT 'nextval(''x''::regclass)',
  plan int REFERENCES "My ""App".plan ON DELETE SET NULL,
  CONSTRAINT "Bl""ock_pkey" PRIMARY KEY (id) WITH (fillfactor = 90),
  CONSTRAINT "short ""note" CHECK (length("Note") < 40),
  UNIQUE ("Ws", id),
  CONSTRAINT apart EXCLUDE USING gist (during WITH &&) WHERE (fee > 100)
) WITH (fillfactor = 80, toast.autovacuum_enabled = off);
ALTER TABLE "My ""App"."Bl""ock" DROP COLUMN gone;
ALTER TABLE "My ""App"."Bl""ock" ADD CONSTRAINT later CHECK (n <> 13) NOT VALID;
ALTER TABLE "My ""App"."Bl""ock" ALTER code SET STORAGE EXTERNAL, ALTER title SET STATISTICS 500, ALTER title SET (n_distinct = -0.5);
COMMENT ON TABLE "My ""App"."Bl""ock" IS 'the user''s \ blocks'; COMMENT ON COLUMN "My ""App"."Bl""ock"."Ws" IS '100%';
CREATE INDEX "by ""title" ON "My ""App"."Bl""ock" USING btree (lower(title COLLATE "C") DESC NULLS LAST, "Ws") INCLUDE (n) WITH (fillfactor = 70) WHERE moods <> '{}' AND title <> ' ON "My ""App"';
CREATE UNIQUE INDEX by_code ON "My ""App"."Bl""ock" (lib.code(n), "Ws" int8_ops DESC);
`

const comments = `
CREATE TABLE "My ""App".comment (
  id bigserial, at date NOT NULL, block uuid NOT NULL, body text, PRIMARY KEY (id, at),
  CONSTRAINT comment_block_fkey FOREIGN KEY (block) REFERENCES "My ""App"."Bl""ock" ON DELETE CASCADE
) PARTITION BY RANGE (at);
CREATE TABLE "My ""App".comment_old PARTITION OF "My ""App".comment FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
CREATE TABLE "My ""App".comment_new PARTITION OF "My ""App".comment (CONSTRAINT recent CHECK (at >= '2020-01-01')) FOR VALUES FROM ('2020-01-01') TO (MAXVALUE) PARTITION BY HASH (id);
CREATE TABLE "My ""App".comment_new_0 PARTITION OF "My ""App".comment_new FOR VALUES WITH (MODULUS 1, REMAINDER 0) WITH (fillfactor = 60);
CREATE INDEX comment_block ON "My ""App".comment (block);
CREATE INDEX only_old ON "My ""App".comment_old (body);
`

func oddSpec(schema string) *migrate.Spec {
	const s = `My "App`
	return &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db0"}, {Name: "db1"}},
		Shards:    migrate.Shards{Count: 4, Schema: schema, Hash: "postgres", Placement: []string{"db0", "db0", "db1", "db1"}},
		Tables: []migrate.Table{
			{Name: name(s, `Bl"ock`), Key: migrate.Key{Column: "Ws"}, As: `B"`},
			{Name: name(s, "comment"), Key: migrate.Key{From: name(s, `Bl"ock`), Via: "block", StoreAs: "Ws"}},
			{Name: name(s, "plan"), Everywhere: true},
		},
	}
}

func TestPrepareSchemaPerShard(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	db := r.databases["db0"]
	show(t, db, `SELECT relname, nspname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname IN ('Shard 00', 'Shard 02', 'My "App') AND relkind IN ('r', 'p', 'S') ORDER BY 2, 1`,
		`Bl"ock_no_seq|My "App|S`, `S "q|My "App|S`, `comment_id_seq|My "App|S`, `plan|My "App|r`, `plan_id_seq|My "App|S`,
		`B"|Shard 00|r`, `comment|Shard 00|p`, `comment_new|Shard 00|p`, `comment_new_0|Shard 00|r`, `comment_old|Shard 00|r`)
	for _, schema := range []string{"Shard 00", "Shard 01"} {
		expect(t, db, "SET shardctl.applier = 'm'", fmt.Sprintf(`INSERT INTO %q."B""" ("Ws", fee) VALUES (5, 2)`, schema), "")
		expect(t, db, "", fmt.Sprintf(`INSERT INTO %q."B""" ("Ws", fee) VALUES (5, 2)`, schema), "25006")
		expect(t, db, "", fmt.Sprintf(`INSERT INTO %q.comment_new_0 (at, block) VALUES (now(), gen_random_uuid())`, schema), "25006")
	}
	// The sequences are shared by the schemas of the database; one caches three values a session.
	show(t, db, `SELECT no, n, code, twice, "Note", moods FROM "Shard 01"."B"""`, `101|20|c7ok|202|nextval('x'::regclass)|{ok}`)
	show(t, db, `SELECT reloptions, obj_description(oid, 'pg_class'), col_description(oid, 2) FROM pg_class WHERE oid = '"Shard 00"."B"""'::regclass`,
		`{fillfactor=80}|the user's \ blocks|100%`)
	show(t, db, `SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = '"Shard 00".comment'::regclass AND attnum > 0 ORDER BY attnum`,
		"id|bigint|t", "at|date|t", "block|uuid|t", "body|text|f", "Ws|bigint|f")
	show(t, db, `SELECT pg_get_expr(relpartbound, oid), reloptions FROM pg_class WHERE oid = '"Shard 01".comment_new_0'::regclass`,
		"FOR VALUES WITH (modulus 1, remainder 0)|{fillfactor=60}")
	show(t, db, `SELECT conname FROM pg_constraint WHERE conrelid = '"Shard 00"."B"""'::regclass AND contype <> 'n' ORDER BY 1`, `Bl"ock_pkey`, `short "note`)
	show(t, db, `SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'shardctl.m_tomb_2'::regclass AND attnum > 0`,
		"loc name, k1 bigint, k2 date, tick bigint")
	// Chunks ask by key, without a place, and by tick.
	show(t, db, `SELECT string_agg((SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid), '; ' ORDER BY indnkeyatts DESC) FROM pg_index WHERE indrelid = 'shardctl.m_tomb_2'::regclass`,
		"k1, k2, loc; tick")
	show(t, db, `SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgtype & 3 = 3`, "0") // none fires BEFORE ROW
	if schema, seq := target.SequenceName(r.layout, `My "App`, "x"); schema != `My "App` || seq != "x" {
		t.Errorf("sequence at %s.%s", schema, seq)
	}
	if got := db.Value(t, "SELECT count(*) FROM pg_trigger WHERE tgname = $1", logschema.ClosedTrigger("m")); got != "11" {
		t.Errorf("%s closed fences, 5 relations at 2 locations and one everywhere", got)
	}
}
