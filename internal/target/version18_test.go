package target_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// TestConstraintsOfVersion18: what is not enforced, or not validated, on the source must
// not refuse on the databases what the source takes; the rest keeps its names and means
// what it meant.
func TestConstraintsOfVersion18(t *testing.T) {
	t.Parallel()
	pgtest.Since(t, pgtest.NewDatabase(t), "18")
	spec := &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db0"}, {Name: "db1"}},
		Shards:    migrate.Shards{Count: 2, Schema: "shard_%d", Hash: "postgres", Placement: []string{"db0", "db1"}},
		Tables: []migrate.Table{
			{Name: name("public", "plan"), Everywhere: true},
			{Name: name("public", "ws"), Key: migrate.Key{Column: "id"}},
			{Name: name("public", "room"), Key: migrate.Key{Column: "ws"}},
			{Name: name("public", "stay"), Key: migrate.Key{Column: "ws"}},
		},
	}
	r := newRig(t, `CREATE EXTENSION btree_gist;
CREATE TABLE plan (id int PRIMARY KEY);
CREATE TABLE ws (id bigint PRIMARY KEY, plan int, n int, twice int GENERATED ALWAYS AS (n * 2) VIRTUAL, named int CONSTRAINT "A name" NOT NULL DEFAULT 1, late int,
	CONSTRAINT few CHECK (n < 9) NOT ENFORCED, CONSTRAINT loose FOREIGN KEY (plan) REFERENCES plan ON DELETE CASCADE NOT ENFORCED);
INSERT INTO ws VALUES (1, 77, 12);
ALTER TABLE ws ADD CONSTRAINT lately NOT NULL late NOT VALID;
CREATE TABLE room (ws bigint NOT NULL, id int PRIMARY KEY, during tstzrange, UNIQUE (ws, during WITHOUT OVERLAPS));
CREATE TABLE stay (ws bigint NOT NULL, id int PRIMARY KEY, during tstzrange, FOREIGN KEY (ws, PERIOD during) REFERENCES room (ws, PERIOD during));
`, spec, "db0")
	db := r.databases["db0"]
	db.Exec(t, "CREATE EXTENSION btree_gist")
	r.prepare(t, "db0")
	db.Exec(t, `SET shardctl.applier = 'm'; INSERT INTO shard_0.ws VALUES (1, 77, 12, DEFAULT, 1, NULL)`) // as the source has it
	r.finish(t, "db0")
	const constraints = `SELECT conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid) || ' ' || convalidated FROM pg_constraint
		WHERE conrelid::regclass::text ~ '^(shard_0\.)?(ws|room|stay)$' ORDER BY 1`
	want := strings.Join(r.source.Rows(t, constraints), "\n")
	got := strings.ReplaceAll(strings.Join(db.Rows(t, constraints), "\n"), "shard_0.", "")
	if got != want {
		t.Errorf("constraints:\n%s\nwant those of the source:\n%s", got, want)
	}
	show(t, db, "SELECT attgenerated FROM pg_attribute WHERE attrelid = 'shard_0.ws'::regclass AND attname = 'twice'", "v")
	r.finish(t, "db0") // again
	r.turn(t, "db0", target.Open)
	r.turn(t, "db0", target.Close)
	if again := strings.ReplaceAll(strings.Join(db.Rows(t, constraints), "\n"), "shard_0.", ""); again != want {
		t.Errorf("constraints after a turn there and back:\n%s", again)
	}
}
