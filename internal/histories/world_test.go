package histories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// world is an installed migration that histories are played on, one after the other.
type world struct {
	shape    shape
	spec     *migrate.Spec
	layout   *layout.Layout
	servers  []*pgtest.Database // the source, then the databases
	targets  []postgres.Target
	conns    []*pgx.Conn // what looks on and tends
	monitor  *pgx.Conn   // asks who waits, whatever the others do
	verifier *verify.Verifier
	places   []place
	sessions []*session // of the application, on the source
	catchup  *catchup
}

// place is a location with keys that belong there.
type place struct {
	db     int // from 1
	schema string
	keys   []int64
}

// failure is what a history fails with.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func newWorld(t testing.TB, s shape) *world {
	t.Helper()
	return newWorldAfter(t, s, func(*world) {})
}

// newWorldAfter makes one, and calls f when the tables are there and nothing else is.
func newWorldAfter(t testing.TB, s shape, f func(*world)) *world {
	t.Helper()
	w := &world{shape: s, servers: pgtest.NewDatabases(t, s.databases+1)}
	w.spec = &migrate.Spec{Version: 1, Migration: "m", Shards: migrate.Shards{Count: s.shards, Schema: s.schema, Hash: "postgres"}, Tables: s.tables()}
	for i, server := range w.servers {
		name := "source"
		if i > 0 {
			name = fmt.Sprintf("db%d", i)
			w.spec.Databases = append(w.spec.Databases, migrate.Database{Name: name, DSN: migrate.Secret(server.DSN())})
		}
		w.targets = append(w.targets, postgres.Target{Name: name, DSN: migrate.Secret(server.DSN())})
		// Sessions that wait for each other in a circle should not do so for long.
		server.Exec(t, fmt.Sprintf("ALTER DATABASE %q SET deadlock_timeout = '20ms'", server.Name))
		w.conns = append(w.conns, w.connect(t, i))
	}
	for shard := range s.shards {
		w.spec.Shards.Placement = append(w.spec.Shards.Placement, fmt.Sprintf("db%d", shard*s.databases/s.shards+1))
	}
	w.monitor = w.connect(t, 0)
	w.servers[0].Exec(t, s.ddl())
	f(w)
	must(t, w.install(t.Context()))
	w.verifier = verify.New(verify.Config{Layout: w.layout, Source: w.targets[0], Databases: w.targets[1:]})
	t.Cleanup(w.verifier.Close)
	must(t, verify.CreateState(t.Context(), w.conns[0]))
	w.findPlaces(t)
	w.catchup = &catchup{w: w}
	t.Cleanup(func() { w.leave() })
	for i := range sessions {
		w.sessions = append(w.sessions, w.newSession(t.Context(), 0, fmt.Sprint("s", i)))
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) connect(t testing.TB, i int) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), w.targets[i], "histories")
	must(t, err)
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// install does what prepare and install do.
func (w *world) install(ctx context.Context) (err error) {
	source := w.conns[0]
	if err := store.CreateSource(ctx, source); err != nil {
		return err
	}
	if w.layout, err = layout.Load(ctx, source, w.spec); err != nil {
		return err
	}
	if err := store.InsertMigration(ctx, source, store.Migration{Name: "m", Phase: migrate.Installed, SpecDigest: "x", Spec: []byte("{}"), SystemIdentifier: "1"}); err != nil {
		return err
	}
	for i, d := range w.spec.Databases {
		conn, shards := w.conns[i+1], w.spec.Shards.ShardsOf(d.Name)
		if err := store.CreateDatabase(ctx, conn); err != nil {
			return err
		}
		if err := store.SaveControl(ctx, conn, "m", store.Control{Database: d.Name, Owner: store.OwnerSource, Term: 1, Shards: shards}); err != nil {
			return err
		}
		if err := store.SaveOwnership(ctx, source, "m", store.Ownership{Database: d.Name, Owner: store.OwnerSource, Term: 1, Shards: shards}); err != nil {
			return err
		}
		if err := target.Prepare(ctx, source, conn, w.layout, d.Name); err != nil {
			return err
		}
	}
	return auditlog.Install(ctx, auditlog.Env{Layout: w.layout, Source: w.targets[0], Databases: w.targets[1:]})
}

// findPlaces asks the server which keys belong where.
func (w *world) findPlaces(t testing.TB) {
	t.Helper()
	table, at := w.layout.Tables[0], map[migrate.Location]int{}
	for i, d := range w.spec.Databases {
		for _, loc := range w.layout.Locations(table, d.Name) {
			at[loc] = len(w.places)
			w.places = append(w.places, place{db: i + 1, schema: loc.Schema})
		}
	}
	for _, row := range w.servers[0].Rows(t, fmt.Sprintf("SELECT k, %s FROM generate_series(1, 60) k", w.layout.ShardSQL(table, "k::bigint"))) {
		var key int64
		var shard int
		if _, err := fmt.Sscanf(row, "%d|%d", &key, &shard); err != nil {
			t.Fatal(err)
		}
		p := &w.places[at[w.layout.LocationOf(table, shard)]]
		p.keys = append(p.keys, key)
	}
	for _, p := range w.places {
		if len(p.keys) < 2 {
			t.Fatalf("%s has no keys", p.schema)
		}
	}
}

// run runs SQL on a server as the applier, whom no trigger of ours sees.
func (w *world) run(ctx context.Context, i int, sql string) {
	_, err := w.conns[i].PgConn().Exec(ctx, "SET shardctl.applier = 'm'; SET session_replication_role = replica;"+sql+"; RESET shardctl.applier; RESET session_replication_role").ReadAll()
	check(err)
}

// reset makes the world as it was after install, with rows that were there before.
// Positions stay: the log was drained. What is emptied has few rows, for which DELETE
// is much faster; the source's files begin anew, since chunks are of their pages.
func (w *world) reset(ctx context.Context, rows string) {
	sql := "TRUNCATE public.block, public.comment, public.reply, public.event; DELETE FROM public.plan; UPDATE shardctl.migration SET phase = 'installed'; UPDATE shardctl.ownership SET owner = 'source'; "
	for _, name := range []string{"chunk", "backfill_plan", "backfill_mode", "verify_pass", "verify_pass_database", "verify_pass_table", "verify_difference", "verify_unsettled", "verify_round"} {
		sql += "DELETE FROM shardctl." + name + "; "
	}
	w.run(ctx, 0, sql+rows)
	for i, d := range w.spec.Databases {
		sql := "DELETE FROM shardctl.ledger; DELETE FROM shardctl.table_tombstone; UPDATE shardctl.control SET owner = 'source', held = false; "
		for _, t := range w.layout.Tables {
			sql += fmt.Sprintf(`DELETE FROM shardctl."m_tomb_%d"; `, t.No)
			for _, loc := range w.layout.Locations(t, d.Name) {
				sql += "DELETE FROM " + w.layout.QualifiedTarget(t, loc) + "; "
			}
		}
		w.run(ctx, i+1, sql+`DO $$ DECLARE i text; BEGIN FOR i IN SELECT format('%I.%I', schemaname, indexname) FROM pg_indexes WHERE indexname LIKE 'history\_%' LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END $$`)
	}
}

// eachRelation gives a statement for each table and leaf of a database.
func (w *world) eachRelation(i int, statement string) string {
	return fmt.Sprintf(`DO $$ DECLARE r regclass; BEGIN FOR r IN SELECT tgrelid FROM pg_trigger WHERE tgname = 'shardctl_m_closed' LOOP EXECUTE format('%s', r); END LOOP; END $$`,
		strings.ReplaceAll(statement, "'", "''"))
}

// names are those of all databases of the world's servers.
func (w *world) names() []string {
	var out []string
	for _, s := range w.servers {
		out = append(out, s.Name)
	}
	return out
}

// waits reports whether sessions of that name, or the backend, wait for a lock.
func (w *world) waits(ctx context.Context, purpose string, pid uint32) bool {
	const sql = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = ANY ($1) AND wait_event_type = 'Lock' AND wait_event <> 'extend' AND (pid = $2 OR application_name ~ $3))`
	var blocked bool
	check(w.monitor.QueryRow(ctx, sql, w.names(), int32(pid), purpose).Scan(&blocked))
	return blocked
}

// patience bounds what a step may take before the history counts as stuck.
const patience = 2 * time.Minute
