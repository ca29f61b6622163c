package backfill_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const patience = 30 * time.Second

// fixture is an installed migration: a source with its logs, and databases with
// empty tables.
type fixture struct {
	spec      *migrate.Spec
	source    *pgtest.Database
	databases map[string]*pgtest.Database
	conn      *pgx.Conn // on the source
	l         *layout.Layout
}

// setup says what a fixture is made of.
type setup struct {
	shards    int
	schema    string // pattern; defaults to "app"
	databases int    // defaults to 2
	ddl       string // of the source
	tables    []migrate.Table
	types     string            // DDL of the databases, before their tables
	target    map[string]string // columns of a table on the databases, with its primary key
}

const blockColumns = `(id bigint PRIMARY KEY, ws bigint NOT NULL, note text, version int)`

// blocks is a table with a key of its own, over eight shards.
func blocks(rows int) setup {
	return setup{
		shards: 8,
		ddl:    "CREATE TABLE block " + blockColumns + fmt.Sprintf("; INSERT INTO block SELECT i, i %% 97, 'row ' || i, 1 FROM generate_series(1, %d) i", rows),
		tables: []migrate.Table{{Name: name("block"), Key: migrate.Key{Column: "ws"}}},
		target: map[string]string{"block": blockColumns},
	}
}

func name(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }

// pool is a set of databases that scenarios use one after the other: to make
// databases takes longer than to use them.
type pool struct{ all []*pgtest.Database }

func newPool(t testing.TB) *pool { return &pool{pgtest.NewDatabases(t, 4)} }

// scenario is a test on databases of a pool.
type scenario struct {
	name string
	run  func(*testing.T, *pool)
}

func (p *pool) run(t *testing.T, scenarios ...scenario) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.run(t, p) })
	}
}

// wipe removes everything from the databases.
func (p *pool) wipe(t testing.TB) {
	for _, db := range p.all {
		db.Exec(t, `DO $$ DECLARE s text; BEGIN
			FOR s IN SELECT nspname FROM pg_namespace WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%' LOOP
				EXECUTE format('DROP SCHEMA %I CASCADE', s);
			END LOOP; CREATE SCHEMA public; END $$`)
	}
}

func (p *pool) fixture(t testing.TB, s setup) *fixture {
	t.Helper()
	p.wipe(t)
	if s.schema == "" {
		s.schema = "app"
	}
	if s.databases == 0 {
		s.databases = 2
	}
	all := p.all[:s.databases+1]
	f := &fixture{source: all[0], databases: map[string]*pgtest.Database{}, spec: &migrate.Spec{
		Migration: "m", Tables: s.tables, Shards: migrate.Shards{Count: s.shards, Schema: s.schema, Hash: "postgres"}}}
	f.source.Exec(t, s.ddl)
	for i, db := range all[1:] {
		n := fmt.Sprintf("db%d", i)
		f.databases[n] = db
		f.spec.Databases = append(f.spec.Databases, migrate.Database{Name: n, DSN: migrate.Secret(db.DSN())})
	}
	for shard := range s.shards {
		f.spec.Shards.Placement = append(f.spec.Shards.Placement, fmt.Sprintf("db%d", shard%s.databases))
	}
	f.conn = connect(t, f.source, "source")
	f.load(t)
	f.state(t)
	for _, d := range f.spec.Databases {
		f.databases[d.Name].Exec(t, s.types)
		f.database(t, d.Name, s.target)
	}
	return f
}

func connect(t testing.TB, db *pgtest.Database, what string) *pgx.Conn {
	t.Helper()
	ctx := context.Background()
	conn, err := postgres.Connect(ctx, postgres.Target{Name: what, DSN: migrate.Secret(db.DSN())}, "test")
	must(t, err)
	t.Cleanup(func() { postgres.CloseQuietly(ctx, conn) })
	return conn
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) load(t testing.TB) {
	t.Helper()
	l, err := layout.Load(context.Background(), f.conn, f.spec)
	must(t, err)
	f.l = l
}

// state makes what install leaves on the source.
func (f *fixture) state(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	must(t, store.CreateSource(ctx, f.conn))
	must(t, store.InsertMigration(ctx, f.conn, store.Migration{Name: "m", Phase: migrate.Installed, SpecDigest: "x", Spec: []byte("{}"), SystemIdentifier: "1"}))
	must(t, store.SetInstallLSN(ctx, f.conn, "m"))
	for _, table := range f.l.Tables {
		for segment := range logschema.Segments {
			f.source.Exec(t, fmt.Sprintf(`CREATE TABLE shardctl.%s (seq bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
				PRIMARY KEY (xid, seq)) WITH (autovacuum_enabled = off)`,
				postgres.Ident(logschema.Log("m", table.No, segment))))
		}
	}
}

// database makes what prepare leaves on a database.
func (f *fixture) database(t testing.TB, n string, columns map[string]string) {
	t.Helper()
	ctx := context.Background()
	db := f.databases[n]
	conn := connect(t, db, n)
	must(t, store.CreateDatabase(ctx, conn))
	must(t, store.SaveControl(ctx, conn, "m", store.Control{Database: n, Owner: "source", Shards: f.spec.Shards.ShardsOf(n)}))
	must(t, store.SaveFirstPosition(ctx, conn, "m", n, store.Forward, postgres.Identity{SystemIdentifier: "1", Timeline: 1}))
	for _, schema := range f.spec.Schemas(n) {
		db.Exec(t, "CREATE SCHEMA IF NOT EXISTS "+postgres.Ident(schema))
	}
	for _, table := range f.l.Tables {
		for _, loc := range f.l.Locations(table, n) {
			db.Exec(t, "CREATE TABLE "+f.l.QualifiedTarget(table, loc)+" "+columns[table.Spec.Name.Name])
		}
		var keys, names []string
		for i, pk := range table.PK {
			keys = append(keys, fmt.Sprintf("k%d %s", i+1, pk.TypeName))
			names = append(names, fmt.Sprintf("k%d", i+1))
		}
		db.Exec(t, fmt.Sprintf("CREATE TABLE %[1]s (%[2]s, loc name NOT NULL, tick bigint NOT NULL, PRIMARY KEY (%[3]s, loc)); CREATE INDEX ON %[1]s (tick)",
			postgres.Table("shardctl", logschema.Tombstones("m", table.No)), strings.Join(keys, ", "), strings.Join(names, ", ")))
	}
}

func (f *fixture) config() backfill.Config {
	cfg := backfill.Config{Source: postgres.Target{Name: "source", DSN: migrate.Secret(f.source.DSN())}, Layout: f.l, Workers: 2}
	for _, d := range f.spec.Databases {
		cfg.Databases = append(cfg.Databases, postgres.Target{Name: d.Name, DSN: d.DSN})
	}
	return cfg
}

// run runs a backfill to its end.
func (f *fixture) run(t testing.TB, cfg backfill.Config) backfill.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := backfill.Run(ctx, cfg)
	must(t, err)
	return res
}

// live is a configuration that copies live with chunks of so many pages.
func (f *fixture) live(pages int64) backfill.Config {
	cfg := f.config()
	cfg.Mode = backfill.Live
	cfg.SetChunkPages(pages)
	return cfg
}

func (f *fixture) fast(pages int64) backfill.Config {
	cfg := f.live(pages)
	cfg.Mode = backfill.Fast
	return cfg
}

// check compares what is where with what should be, as the server places it.
func (f *fixture) check(t testing.TB) {
	t.Helper()
	for _, table := range f.l.Tables {
		want, got := f.wanted(t, table), f.found(t, table)
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: missing %s", table.Name(), line)
			}
		}
		if len(want) != len(got) {
			t.Errorf("%s: %d rows on the databases, %d were expected", table.Name(), len(got), len(want))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func (f *fixture) wanted(t testing.TB, table *layout.Table) []string {
	t.Helper()
	columns := postgres.Idents("x", layout.Names(table.Copied()))
	joins, key := table.KeyFrom("x")
	if table.StoreAs != "" {
		columns += ", " + key
	}
	shard := "0"
	if !table.Everywhere() {
		shard = f.l.ShardSQL(table, key)
	}
	var out []string
	for _, row := range f.source.Rows(t, fmt.Sprintf("SELECT coalesce(%s, -1), ROW(%s)::text FROM %s x%s", shard, columns, table.QualifiedSource(), joins)) {
		no, text, _ := strings.Cut(row, "|")
		var n int
		_, err := fmt.Sscan(no, &n)
		must(t, err)
		switch {
		case table.Everywhere():
			for d := range f.databases {
				out = append(out, f.l.Locations(table, d)[0].String()+": "+text)
			}
		case n >= 0:
			out = append(out, f.l.LocationOf(table, n).String()+": "+text)
		}
	}
	return sorted(out)
}

func (f *fixture) found(t testing.TB, table *layout.Table) []string {
	t.Helper()
	columns := layout.Names(table.Copied())
	if table.StoreAs != "" {
		columns = append(columns, table.StoreAs)
	}
	var out []string
	for d, db := range f.databases {
		for _, loc := range f.l.Locations(table, d) {
			for _, row := range db.Rows(t, fmt.Sprintf("SELECT ROW(%s)::text FROM %s x", postgres.Idents("x", columns), f.l.QualifiedTarget(table, loc))) {
				out = append(out, loc.String()+": "+row)
			}
		}
	}
	return sorted(out)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// tick does to every database what catch-up does with entries for these ids of
// the first table, and gives its number. Ticks of a held database wait.
func (f *fixture) tick(t testing.TB, ids ...int64) int64 {
	t.Helper()
	ctx := context.Background()
	conn := connect(t, f.source, "source")
	var snapshot string
	must(t, conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&snapshot))
	marker, err := store.WriteMarker(ctx, conn, "m", snapshot)
	must(t, err)
	for d, db := range f.databases {
		to := connect(t, db, d)
		must(t, postgres.WithTx(ctx, to, pgx.TxOptions{}, func(tx pgx.Tx) error {
			c, err := store.ShareControl(ctx, tx, "m")
			if err != nil || c.Held {
				return err
			}
			if err := store.LockTableExclusive(ctx, tx, "m", 1); err != nil {
				return err
			}
			for _, id := range ids {
				if err := f.apply(ctx, conn, tx, d, id, marker.Tick); err != nil {
					return err
				}
			}
			return store.SavePosition(ctx, tx, "m", d, store.Forward, store.Position{SystemIdentifier: "1", Timeline: 1, Marker: marker.ID, Snapshot: snapshot, Tick: marker.Tick, LSN: marker.LSN})
		}))
	}
	return marker.Tick
}

// apply brings one row of the first table to what the source has.
func (f *fixture) apply(ctx context.Context, source *pgx.Conn, tx pgx.Tx, database string, id, tick int64) error {
	table := f.l.Tables[0]
	joins, key := table.KeyFrom("x")
	var shard *int
	var row string
	err := source.QueryRow(ctx, fmt.Sprintf("SELECT %s, row_to_json(x)::text FROM %s x%s WHERE x.id = $1", f.l.ShardSQL(table, key), table.QualifiedSource(), joins), id).Scan(&shard, &row)
	if err != nil && err != pgx.ErrNoRows {
		return err
	}
	for _, loc := range f.l.Locations(table, database) {
		target := f.l.QualifiedTarget(table, loc)
		if row != "" && shard != nil && f.l.LocationOf(table, *shard) == loc {
			_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s SELECT * FROM json_populate_record(NULL::%[1]s, $1::json)
				ON CONFLICT (id) DO UPDATE SET (ws, note, version) = ROW (excluded.ws, excluded.note, excluded.version)`, target), row)
		} else {
			_, err = tx.Exec(ctx, fmt.Sprintf(`WITH gone AS (DELETE FROM %s WHERE id = $1) INSERT INTO %s AS b (k1, loc, tick) VALUES ($1, $2, $3)
				ON CONFLICT (k1, loc) DO UPDATE SET tick = greatest(b.tick, excluded.tick)`, target, postgres.Table("shardctl", logschema.Tombstones("m", 1))), id, loc.Schema, tick)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
