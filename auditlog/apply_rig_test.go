package auditlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// rig is a source with databases, capture installed, ready for ticks.
type rig struct {
	spec    *migrate.Spec
	layout  *layout.Layout
	source  *pgtest.Database
	dbs     []*pgtest.Database
	applier *auditlog.Applier
	term    int64
	events  chan auditlog.Progress
}

// rigSpec describes one.
type rigSpec struct {
	ddl       string // on the source
	tables    []migrate.Table
	databases int // defaults to 2
	count     int // defaults to 4
	schema    string
	batch     int
	delta     auditlog.DeltaChecker
	source    *pgtest.Cluster // where the source is; defaults to the shared server
	last      *pgtest.Cluster // where the last database is; the same
}

const blockDDL = `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body text);
CREATE TABLE public.comment (id bigint PRIMARY KEY, block_id bigint, body text);
CREATE INDEX ON public.comment (block_id);
CREATE TABLE public.plan (id int PRIMARY KEY, name text)`

// blocks are a table with a key, one derived from it, and one everywhere.
func blocks() []migrate.Table {
	refuse := migrate.Stray{Policy: "refuse"}
	return []migrate.Table{
		{Name: migrate.TableName{Schema: "public", Name: "block"}, Key: migrate.Key{Column: "workspace_id"}, NullKeys: refuse, Orphans: refuse},
		{Name: migrate.TableName{Schema: "public", Name: "comment"}, Key: migrate.Key{From: migrate.TableName{Schema: "public", Name: "block"}, Via: "block_id"}, NullKeys: refuse, Orphans: refuse},
		{Name: migrate.TableName{Schema: "public", Name: "plan"}, Everywhere: true},
	}
}

func newRig(t testing.TB, rs rigSpec) *rig {
	t.Helper()
	if rs.databases == 0 {
		rs.databases = 2
	}
	if rs.count == 0 {
		rs.count = 4
	}
	if rs.schema == "" {
		rs.schema = "shard_%d"
	}
	if rs.ddl == "" {
		rs.ddl, rs.tables = blockDDL, blocks()
	}
	ctx := t.Context()
	r := &rig{dbs: pgtest.NewDatabases(t, rs.databases), events: make(chan auditlog.Progress, 1<<16)}
	if rs.source != nil {
		r.source = rs.source.NewDatabase(t)
	} else {
		r.source = pgtest.NewDatabase(t)
	}
	if rs.last != nil {
		r.dbs[len(r.dbs)-1] = rs.last.NewDatabase(t)
	}
	r.spec = &migrate.Spec{Version: 1, Migration: "m", Source: migrate.Source{DSN: migrate.Secret(r.source.DSN())},
		Shards: migrate.Shards{Count: rs.count, Schema: rs.schema, Hash: "postgres"}, Tables: rs.tables}
	for i, d := range r.dbs {
		r.spec.Databases = append(r.spec.Databases, migrate.Database{Name: fmt.Sprintf("db%d", i), DSN: migrate.Secret(d.DSN())})
	}
	for shard := range rs.count {
		r.spec.Shards.Placement = append(r.spec.Shards.Placement, fmt.Sprintf("db%d", shard*rs.databases/rs.count))
	}
	r.source.Exec(t, rs.ddl)
	conn := r.connect(t, r.sourceTarget())
	must(t, store.CreateSource(ctx, conn))
	var err error
	r.layout, err = layout.Load(ctx, conn, r.spec)
	must(t, err)
	must(t, store.InsertMigration(ctx, conn, store.Migration{Name: "m", Phase: migrate.Installed, SpecDigest: "x", Spec: []byte("{}"), SystemIdentifier: "1"}))
	r.term = 1
	for i := range r.dbs {
		r.prepare(t, i, rs.ddl)
		must(t, store.SaveOwnership(ctx, conn, "m", store.Ownership{Database: r.name(i), Shards: r.spec.Shards.ShardsOf(r.name(i)), Owner: store.OwnerSource, Term: r.term}))
	}
	must(t, auditlog.Install(ctx, auditlog.Env{Layout: r.layout, Source: r.sourceTarget(), Databases: r.targets()}))
	r.applier = r.newApplier(t, r.term, rs)
	return r
}

func (r *rig) newApplier(t testing.TB, term int64, rs rigSpec) *auditlog.Applier {
	t.Helper()
	a, err := auditlog.New(auditlog.Config{Layout: r.layout, Source: r.sourceTarget(), Databases: r.targets(), Term: term, Batch: rs.batch, Delta: rs.delta,
		Observe: func(p auditlog.Progress) {
			select {
			case r.events <- p:
			default:
			}
		}})
	must(t, err)
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

// prepare makes the tables of a database at all their places, as prepare does.
func (r *rig) prepare(t testing.TB, i int, ddl string) {
	t.Helper()
	ctx := t.Context()
	conn := r.connect(t, r.target(i))
	must(t, store.CreateDatabase(ctx, conn))
	for _, schema := range r.spec.Schemas(r.name(i)) {
		if schema != "public" {
			r.dbs[i].Exec(t, "CREATE SCHEMA "+postgres.Ident(schema))
		}
		r.dbs[i].Exec(t, strings.ReplaceAll(ddl, "public.", postgres.Ident(schema)+"."))
	}
	for _, table := range r.layout.Tables {
		var cols, keys []string
		for n, c := range table.PK {
			cols, keys = append(cols, fmt.Sprintf("k%d %s", n+1, c.TypeName)), append(keys, fmt.Sprintf("k%d", n+1))
		}
		name := postgres.Table(logschema.Schema, logschema.Tombstones("m", table.No))
		r.dbs[i].Exec(t, fmt.Sprintf("CREATE TABLE %s (%s, loc name NOT NULL, tick bigint NOT NULL, PRIMARY KEY (%s, loc)); INSERT INTO shardctl.pruned VALUES ('m', %d, 0)",
			name, strings.Join(cols, ", "), strings.Join(keys, ", "), table.No))
		if table.StoreAs != "" {
			for _, loc := range r.layout.Locations(table, r.name(i)) {
				r.dbs[i].Exec(t, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", r.layout.QualifiedTarget(table, loc), table.StoreAs, table.Key.TypeName))
			}
		}
	}
	must(t, store.SaveControl(ctx, conn, "m", store.Control{Database: r.name(i), Owner: store.OwnerSource, Term: r.term, Shards: r.spec.Shards.ShardsOf(r.name(i))}))
}

func (r *rig) name(i int) string { return fmt.Sprintf("db%d", i) }

func (r *rig) sourceTarget() postgres.Target {
	return postgres.Target{Name: "source", DSN: migrate.Secret(r.source.DSN())}
}

func (r *rig) target(i int) postgres.Target {
	return postgres.Target{Name: r.name(i), DSN: migrate.Secret(r.dbs[i].DSN())}
}

func (r *rig) targets() []postgres.Target {
	var out []postgres.Target
	for i := range r.dbs {
		out = append(out, r.target(i))
	}
	return out
}

func (r *rig) connect(t testing.TB, target postgres.Target) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), target, "test")
	must(t, err)
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// own gives the databases their shards, as a cutover does to state.
func (r *rig) own(t testing.TB, names ...string) { r.setOwner(t, true, names) }

// giveBack gives the shards back to the source.
func (r *rig) giveBack(t testing.TB, names ...string) { r.setOwner(t, false, names) }

func (r *rig) setOwner(t testing.TB, moved bool, names []string) {
	t.Helper()
	for i := range r.dbs {
		if len(names) > 0 && !slices.Contains(names, r.name(i)) {
			continue
		}
		owner := store.OwnerSource
		if moved {
			owner = r.name(i)
		}
		r.source.Exec(t, "UPDATE shardctl.ownership SET owner = $1 WHERE database = $2", owner, r.name(i))
		r.dbs[i].Exec(t, "UPDATE shardctl.control SET owner = $1", owner)
	}
}

// clear empties the tables on all sides, and what tests look at.
func (r *rig) clear(t testing.TB) {
	t.Helper()
	r.giveBack(t)
	for i := len(r.layout.Tables) - 1; i >= 0; i-- {
		r.source.Exec(t, "DELETE FROM "+r.layout.Tables[i].QualifiedSource())
	}
	r.source.Exec(t, "DELETE FROM shardctl.quarantine; DELETE FROM shardctl.stray")
	r.level(t)
	r.want(t)
}

// tick makes one tick forward for all databases.
func (r *rig) tick(t testing.TB) []auditlog.Tick {
	t.Helper()
	ticks, err := r.applier.Forward(t.Context())
	must(t, err)
	return ticks
}

// level ticks until all databases are level with the source.
func (r *rig) level(t testing.TB) {
	t.Helper()
	for range 1000 {
		if !slices.ContainsFunc(r.tick(t), func(k auditlog.Tick) bool { return k.Cut }) {
			return
		}
	}
	t.Fatal("a thousand ticks, and still cut")
}

// back makes one tick back for all databases.
func (r *rig) back(t testing.TB, names ...string) []auditlog.Tick {
	t.Helper()
	ticks, err := r.applier.Reverse(t.Context(), names...)
	must(t, err)
	return ticks
}

// want compares all tables of all databases with the source, at the places that
// the server computes.
func (r *rig) want(t testing.TB) {
	t.Helper()
	for _, table := range r.layout.Tables {
		joins, key := table.KeyFrom("r")
		cols := postgres.Idents("r", layout.Names(table.Source.Columns))
		for i := range r.dbs {
			for _, loc := range r.layout.Locations(table, r.name(i)) {
				where := "true"
				if !table.Everywhere() {
					var shards []string
					for shard, home := range r.spec.Shards.Placement {
						if home == r.name(i) && r.spec.LocationOf(shard) == loc {
							shards = append(shards, fmt.Sprint(shard))
						}
					}
					where = fmt.Sprintf("%s IN (%s)", r.layout.ShardSQL(table, key), strings.Join(shards, ", "))
				}
				source := r.source.Rows(t, fmt.Sprintf("SELECT %s FROM %s r%s WHERE %s ORDER BY %s", cols, table.QualifiedSource(), joins, where, postgres.Idents("r", table.PKNames())))
				target := r.dbs[i].Rows(t, fmt.Sprintf("SELECT %s FROM %s r ORDER BY %s", cols, r.layout.QualifiedTarget(table, loc), postgres.Idents("r", table.PKNames())))
				if !slices.Equal(source, target) {
					t.Errorf("%s at %s:\n has  %v\n want %v", table.Name(), loc, clip(target), clip(source))
				}
			}
		}
	}
}

func clip(rows []string) []string {
	if len(rows) > 12 {
		return append(slices.Clone(rows[:12]), fmt.Sprintf("… %d in all", len(rows)))
	}
	return rows
}

// position is a database's forward position as text, to see whether it moved.
func (r *rig) position(t testing.TB, i int) string {
	return r.dbs[i].Value(t, "SELECT snapshot::text || ' ' || tick FROM shardctl.position WHERE direction = 'forward'")
}

// quarantine lists a side's quarantined keys.
func quarantine(t testing.TB, d *pgtest.Database) []string {
	return d.Rows(t, "SELECT database, direction, table_no, key::text, reason FROM shardctl.quarantine ORDER BY 1, 2, 3, 4")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// soon polls until it holds.
func soon(t testing.TB, f func() bool) {
	t.Helper()
	pgtest.Eventually(t, 10*time.Second, f)
}

func sortNumbers(texts []string) {
	slices.SortFunc(texts, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

// newApplierFor makes an applier that logs in to the first database in another way.
func (r *rig) newApplierFor(t testing.TB, dsn migrate.Secret) *auditlog.Applier {
	t.Helper()
	targets := r.targets()
	targets[0].DSN = dsn
	a, err := auditlog.New(auditlog.Config{Layout: r.layout, Source: r.sourceTarget(), Databases: targets, Term: r.term})
	must(t, err)
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}
