package backfill_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/migrate"
)

// TestCopying runs one after the other what would each need databases of its own.
func TestCopying(t *testing.T) {
	t.Parallel()
	newPool(t).run(t,
		scenario{"EveryRowArrivesAtItsPlace", testEveryRowArrivesAtItsPlace},
	)
}

func testEveryRowArrivesAtItsPlace(t *testing.T, p *pool) {
	for _, c := range []struct {
		name  string
		setup setup
		mode  backfill.Mode
	}{
		{"fast", blocks(5000), backfill.Fast},
		{"a schema per shard, fast", perShard(blocks(2000)), backfill.Fast},
		{"derived, everywhere, odd names", family(""), backfill.Live},
		{"a stored key", family("ws"), backfill.Fast},
		{"types that are no built-in ones", ownTypes(), backfill.Live},
		{"partitions", partitioned(), backfill.Live},
		{"one shard without a key", single(), backfill.Live},
		{"empty tables", blocks(0), backfill.Live},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := p.fixture(t, c.setup)
			cfg := f.live(3)
			cfg.Mode = c.mode
			res := f.run(t, cfg)
			f.check(t)
			if res.Phase != migrate.Backfilled {
				t.Errorf("the phase is %s", res.Phase)
			}
			if again := f.run(t, f.config()); !again.NothingToDo {
				t.Error("a second run found something to do")
			}
			f.keysAreThere(t)
		})
	}
}

// keysAreThere checks that no database is held or lacks a primary key.
func (f *fixture) keysAreThere(t *testing.T) {
	t.Helper()
	for d, db := range f.databases {
		for _, table := range f.l.Tables {
			for _, loc := range f.l.Locations(table, d) {
				target := f.l.QualifiedTarget(table, loc)
				if n := db.Value(t, "SELECT count(*) FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'p'", target); n != "1" {
					t.Errorf("%s has %s primary keys", target, n)
				}
			}
		}
		if v := db.Value(t, "SELECT held, (SELECT count(*) FROM shardctl.dropped_key) FROM shardctl.control"); v != "f|0" {
			t.Errorf("%s: held and dropped keys: %s", d, v)
		}
	}
}

func perShard(s setup) setup {
	s.schema = "shard_%02d"
	return s
}

// family is a parent with a key, a child and a grandchild that derive theirs, and
// a table that is everywhere.
func family(storeAs string) setup {
	const parent = `(id uuid PRIMARY KEY, ws text NOT NULL)`
	const child = `(id bigint, "Other" int, parent uuid, body text, twice bigint GENERATED ALWAYS AS (id * 2) STORED%s, PRIMARY KEY ("Other", id))`
	const grand = `(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, child uuid%s)`
	stored := ""
	if storeAs != "" {
		stored = ", " + storeAs + " text"
	}
	plan := `(code char(8) PRIMARY KEY, price numeric)`
	derived := func(from, via string) migrate.Key { return migrate.Key{From: name(from), Via: via, StoreAs: storeAs} }
	return setup{
		shards: 16, databases: 3,
		ddl: "CREATE TABLE parent " + parent + "; CREATE TABLE child " + fmt.Sprintf(child, "") + "; CREATE TABLE plan " + plan + `;
			CREATE TABLE link (id uuid PRIMARY KEY, parent uuid); CREATE TABLE grand ` + strings.Replace(fmt.Sprintf(grand, ""), "child uuid", "child uuid UNIQUE", 1) + `;
			INSERT INTO parent SELECT gen_random_uuid(), CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN 'größe ' || i ELSE repeat('x', i % 40) END FROM generate_series(1, 300) i;
			INSERT INTO child (id, "Other", parent, body) SELECT i, -i, id, E'tab\tnew\nline \\N ' || i FROM (SELECT row_number() OVER (ORDER BY id) i, id FROM parent, generate_series(1, 3)) p;
			INSERT INTO link SELECT gen_random_uuid(), id FROM parent;
			INSERT INTO grand (child) SELECT id FROM link;
			INSERT INTO plan SELECT 'p' || i, i / 7.0 FROM generate_series(1, 20) i`,
		tables: []migrate.Table{
			{Name: name("parent"), Key: migrate.Key{Column: "ws"}},
			{Name: name("child"), Key: derived("parent", "parent")},
			{Name: name("link"), Key: derived("parent", "parent")},
			{Name: name("grand"), Key: derived("link", "child")},
			{Name: name("plan"), Everywhere: true},
		},
		target: map[string]string{
			"parent": parent, "child": fmt.Sprintf(child, stored), "link": "(id uuid PRIMARY KEY, parent uuid" + stored + ")",
			"grand": fmt.Sprintf(grand, stored), "plan": plan,
		},
	}
}

// ownTypes has columns whose OIDs differ between servers, so that text is used.
func ownTypes() setup {
	const columns = `(id mood, ws bigint NOT NULL, at timestamptz, data jsonb, raw bytea, span interval, f float8, tags text[], no char(6), PRIMARY KEY (id, ws, no))`
	const types = `CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad'); `
	return setup{
		shards: 4,
		ddl: types + "CREATE TABLE feeling " + columns + `; INSERT INTO feeling SELECT (ARRAY['sad', 'ok', 'glad']::mood[])[1 + i % 3], i, now() + i * interval '1 h',
			jsonb_build_object('k', E'a\t"b"\n' || i), decode(md5(i::text), 'hex'), i * interval '1 day 3 s', i / 3.0, ARRAY[i::text, NULL, E'\\'], 'n' || i FROM generate_series(1, 700) i`,
		tables: []migrate.Table{{Name: name("feeling"), Key: migrate.Key{Column: "ws"}}},
		target: map[string]string{"feeling": columns},
		types:  types,
	}
}

func partitioned() setup {
	const columns = `(id bigint, ws bigint, at date, PRIMARY KEY (id, at))`
	return setup{
		shards: 4,
		ddl: "CREATE TABLE event " + columns + ` PARTITION BY RANGE (at); CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
			CREATE TABLE event_2 (ws bigint, at date NOT NULL, id bigint NOT NULL); ALTER TABLE event ATTACH PARTITION event_2 FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
			CREATE TABLE event_rest PARTITION OF event DEFAULT PARTITION BY RANGE (id); CREATE TABLE event_rest_all PARTITION OF event_rest DEFAULT;
			INSERT INTO event SELECT i, i % 50, '2020-01-01'::date + i FROM generate_series(1, 1500) i`,
		tables: []migrate.Table{{Name: name("event"), Key: migrate.Key{Column: "ws"}}},
		target: map[string]string{"event": columns},
	}
}

func single() setup {
	const columns = `(id int PRIMARY KEY, body text)`
	return setup{
		shards: 1, databases: 1,
		ddl:    "CREATE TABLE one " + columns + "; INSERT INTO one SELECT i, 'x' FROM generate_series(1, 500) i",
		tables: []migrate.Table{{Name: name("one")}},
		target: map[string]string{"one": columns},
	}
}
