package journey

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const oddTables = `
CREATE SCHEMA "Odd ""S";
CREATE TYPE "Odd ""S"."Mood" AS ENUM ('ok', 'bad');
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE "Odd ""S"."Event x" (id bigserial, "Account" text NOT NULL, d date NOT NULL, m "Odd ""S"."Mood", PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE "Odd ""S".early PARTITION OF "Odd ""S"."Event x" FOR VALUES FROM (MINVALUE) TO ('2025-01-01') PARTITION BY HASH (id);
CREATE TABLE "Odd ""S".early_ok PARTITION OF "Odd ""S".early FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE "Odd ""S".late PARTITION OF "Odd ""S"."Event x" DEFAULT;
CREATE TRIGGER touch BEFORE UPDATE ON "Odd ""S"."Event x" FOR EACH ROW EXECUTE FUNCTION public.touch();
CREATE TABLE account (name text PRIMARY KEY);
CREATE TABLE note (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner text NOT NULL REFERENCES account, words int GENERATED ALWAYS AS (length(owner)) STORED);
CREATE INDEX ON note (owner);
CREATE TABLE kind (id int PRIMARY KEY);
INSERT INTO account SELECT 'a' || n FROM generate_series(1, 40) n;
INSERT INTO note (owner) SELECT 'a' || n FROM generate_series(1, 40) n;
INSERT INTO "Odd ""S"."Event x" ("Account", d, m) SELECT 'a' || n % 40 + 1, date '2024-12-01' + n, 'ok' FROM generate_series(1, 90) n;
INSERT INTO kind VALUES (1);`

// oddSpec has all shards of a database in one schema, or one for each.
const oddSpec = `version: 1
migration: odd
source: {dsn: "${SOURCE_DSN}"}
databases: {db0: {dsn: "${DB0_DSN}"}, db1: {dsn: "${DB1_DSN}"}}
shards: {count: 4, schema: "%s", hash: postgres, placement: {db0: 0-1, db1: 2-3}}
tables:
  - {name: '"Odd ""S"."Event x"', key: Account}
  - {name: account, key: name}
  - {name: note, key: {from: account, via: owner, store_as: key_}}
  - {name: kind, everywhere: true}
complete: {everywhere_owner: none}
topology: [{driver: file, path: "%s"}]
`

// TestDoctorOfOddTables: partitions, names that need quotes, serial and identity columns,
// a user's trigger; in one schema and in one for each shard. Nothing of it is taken for a
// fault, in any phase.
func TestDoctorOfOddTables(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"split", "s_%d"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shape{migration: "odd", home: []int{0, 0, 1, 1}, schema: "s_%d"})
			w.exec(w.sourceDSN(), oddTables)
			dir := t.TempDir()
			w.spec = filepath.Join(dir, "odd.yaml")
			must(t, os.WriteFile(w.spec, []byte(fmt.Sprintf(oddSpec, schema, filepath.Join(dir, "topology.json"))), 0o600))
			w.copied(t)
			w.well(t)
			w.exec(w.sourceDSN(), `UPDATE "Odd ""S"."Event x" SET d = d + 20; CREATE TABLE "Odd ""S".extra (LIKE "Odd ""S".late)`)
			w.must(t, "catchup", "--once")
			w.must(t, "verify")
			w.well(t)
			w.partitioned(t, schema)
			w.must(t, "cutover", "--yes")
			w.well(t, "verify")
			w.must(t, "rollback", "--yes")
			w.must(t, "verify")
			w.well(t)
			w.must(t, "cutover", "--yes")
			w.must(t, "complete", "--yes")
			w.well(t)
			w.exec(w.sourceDSN(), `ALTER TABLE ONLY "Odd ""S".early_ok DISABLE TRIGGER shardctl_odd_fence_2`)
			if len(of(w.doctor(t, 4), "fence.source", "broken")) != 1 {
				t.Error("a fence that is down on one partition is not found")
			}
			w.must(t, "doctor", "--repair", "--yes")
			w.well(t)
		})
	}
}

// partitioned attaches a partition: acknowledged only when each place has it too.
func (w *world) partitioned(t *testing.T, schema string) {
	t.Helper()
	const split = `ALTER TABLE %s DETACH PARTITION %s; CREATE TABLE %s PARTITION OF %[1]s FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
	INSERT INTO %[3]s SELECT * FROM %[2]s WHERE d < '2026-01-01'; DELETE FROM %[2]s WHERE d < '2026-01-01'; ALTER TABLE %[1]s ATTACH PARTITION %[2]s DEFAULT`
	w.exec(w.sourceDSN(), fmt.Sprintf(split, `"Odd ""S"."Event x"`, `"Odd ""S".late`, `"Odd ""S".y2025`))
	w.refused(t, 4, "doctor", "--acknowledge-ddl", "--yes")
	for i, schemas := range [][]string{{"s_0", "s_1"}, {"s_2", "s_3"}} {
		if schema == "split" {
			schemas = []string{schema}
		}
		for _, s := range schemas {
			sql := fmt.Sprintf(split, s+`."Event x"`, s+".late", s+".y2025")
			w.exec(w.databaseDSN(i), "SET session_replication_role = replica; SET shardctl.applier = 'odd'; "+sql)
		}
	}
	w.doctor(t, 0, "--acknowledge-ddl", "--yes")
	w.must(t, "catchup", "--once")
	w.must(t, "verify")
	w.well(t)
}
