package verify

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/migrate"
)

const blocks = `
CREATE TABLE public.block (id uuid PRIMARY KEY, ws bigint NOT NULL, kind text, props jsonb, n numeric, f float8, at timestamptz);
CREATE TABLE public.comment (id bigint PRIMARY KEY, block_id uuid NOT NULL, body text);
CREATE INDEX ON public.comment (block_id);
CREATE TABLE public.plan (id int PRIMARY KEY, name varchar(20))`

var blockTables = []migrate.Table{
	{Name: migrate.TableName{Schema: "public", Name: "block"}, Key: migrate.Key{Column: "ws"}},
	{Name: migrate.TableName{Schema: "public", Name: "comment"}, Key: migrate.Key{From: migrate.TableName{Schema: "public", Name: "block"}, Via: "block_id", StoreAs: "ws"}},
	{Name: migrate.TableName{Schema: "public", Name: "plan"}, Everywhere: true},
}

const someBlocks = `
INSERT INTO block SELECT md5(i::text)::uuid, i % 50, CASE WHEN i % 7 = 0 THEN NULL WHEN i % 7 = 1 THEN '' ELSE 'k' || i END, jsonb_build_object('i', i), i + 0.50, i, now() + i * interval '1s'
FROM generate_series(1, 2000) i;
INSERT INTO comment SELECT i, md5((1 + i % 2000)::text)::uuid, 'body ' || i FROM generate_series(1, 1000) i;
INSERT INTO plan SELECT i, 'plan ' || i FROM generate_series(1, 10) i`

func blockWorld(t *testing.T) *world {
	w := build(t, 2, migrate.Shards{Count: 4, Schema: "shard_%03d"}, blockTables, "", blocks)
	w.source.Exec(t, someBlocks)
	w.catchUp()
	return w
}

func TestEqualSidesAreClean(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	r := w.full()
	if r.State != Clean || r.RowsCompared != 3010 || r.Coverage != 1 || len(r.Differences) != 0 || r.Unsettled != 0 {
		t.Errorf("%+v", r)
	}
	must(t, w.verifier.Gate(t.Context(), []string{"db0", "db1"}, 0))
	if !slices.ContainsFunc(w.events, func(e Event) bool { return e.Kind == Reading && e.Rows == 2000 }) {
		t.Errorf("no event told of the reading: %+v", w.events)
	}
	must(t, Forget(t.Context(), w.conn(w.source), "m"))
	for _, table := range w.source.Rows(t, `SELECT relname FROM pg_class WHERE relname LIKE 'verify\_%' AND relkind = 'r'`) {
		if n := w.source.Value(t, "SELECT count(*) FROM shardctl."+table); n != "0" {
			t.Errorf("forgotten, and %s has %s rows", table, n)
		}
	}
}
