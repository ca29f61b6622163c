package restart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func failure(t testing.TB, err error, code string, mentions ...string) {
	t.Helper()
	var f *migrate.Failure
	if !errors.As(err, &f) || f.Code != code || f.Exit != migrate.ExitRefused && code != "epoch.source_behind" {
		t.Fatalf("the error is %v, not a refusal %s", err, code)
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%q does not mention %q", err, m)
		}
	}
}

const schema = `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body text UNIQUE);
CREATE TABLE public.comment (id bigint PRIMARY KEY, block_id bigint REFERENCES public.block, body text);
CREATE INDEX ON public.comment (block_id);
CREATE TABLE public.plan (id int PRIMARY KEY, name text);
INSERT INTO public.block SELECT i, i % 50, 'block ' || i FROM generate_series(1, 300) i;
INSERT INTO public.comment SELECT i, 1 + i % 300, 'comment ' || i FROM generate_series(1, 600) i;
INSERT INTO public.plan SELECT i, 'plan ' || i FROM generate_series(1, 5) i`

// world is a migration whose copy is whole, on two databases of two shards each.
type world struct {
	t      *testing.T
	spec   *migrate.Spec
	layout *layout.Layout
	source *pgtest.Database
	dbs    map[string]*pgtest.Database
	conn   *pgx.Conn            // on the source
	conns  map[string]*pgx.Conn // for Run
}

var both = []string{"db0", "db1"}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{t: t, source: pgtest.NewDatabase(t), dbs: map[string]*pgtest.Database{}, conns: map[string]*pgx.Conn{}}
	public := func(name string) migrate.TableName { return migrate.TableName{Schema: "public", Name: name} }
	refuse := migrate.Stray{Policy: "refuse"}
	w.spec = &migrate.Spec{Version: 1, Migration: "m", Source: migrate.Source{DSN: migrate.Secret(w.source.DSN())}, Tables: []migrate.Table{
		{Name: public("block"), Key: migrate.Key{Column: "workspace_id"}, NullKeys: refuse, Orphans: refuse},
		{Name: public("comment"), Key: migrate.Key{From: public("block"), Via: "block_id"}, NullKeys: refuse, Orphans: refuse},
		{Name: public("plan"), Everywhere: true},
	}, Shards: migrate.Shards{Count: 4, Schema: "shard_%d", Hash: "postgres", Placement: []string{"db0", "db0", "db1", "db1"}}}
	for i, db := range pgtest.NewDatabases(t, 2) {
		w.dbs[both[i]] = db
		w.spec.Databases = append(w.spec.Databases, migrate.Database{Name: both[i], DSN: migrate.Secret(db.DSN())})
	}
	w.source.Exec(t, schema)
	w.conn = w.connect(w.sourceTarget())
	must(t, store.CreateSource(ctx, w.conn))
	var err error
	w.layout, err = layout.Load(ctx, w.conn, w.spec)
	must(t, err)
	id, err := postgres.ReadIdentity(ctx, w.conn)
	must(t, err)
	must(t, store.InsertMigration(ctx, w.conn, store.Migration{Name: "m", Phase: migrate.Installed, SpecDigest: "x", Spec: []byte("{}"), SystemIdentifier: id.SystemIdentifier}))
	for _, d := range w.targets() {
		w.prepare(d)
	}
	must(t, auditlog.Install(ctx, auditlog.Env{Layout: w.layout, Source: w.sourceTarget(), Databases: w.targets()}))
	w.tick()
	w.copy()
	w.equal()
	return w
}

func (w *world) prepare(d postgres.Target) {
	w.t.Helper()
	ctx := w.t.Context()
	conn := w.connect(d)
	w.conns[d.Name] = conn
	must(w.t, store.SaveOwnership(ctx, w.conn, "m", store.Ownership{Database: d.Name, Shards: w.spec.Shards.ShardsOf(d.Name), Owner: store.OwnerSource, Epoch: 1}))
	id, err := postgres.ReadIdentity(ctx, conn)
	must(w.t, err)
	must(w.t, store.SaveMember(ctx, w.conn, "m", d.Name, id))
	must(w.t, store.CreateDatabase(ctx, conn))
	must(w.t, store.SaveControl(ctx, conn, "m", store.Control{Database: d.Name, Owner: store.OwnerSource, Epoch: 1, Shards: w.spec.Shards.ShardsOf(d.Name)}))
	must(w.t, target.Prepare(ctx, w.conn, conn, w.layout, d.Name))
}

func (w *world) sourceTarget() postgres.Target {
	return postgres.Target{Name: "source", DSN: w.spec.Source.DSN}
}

func (w *world) targets() (out []postgres.Target) {
	for _, d := range w.spec.Databases {
		out = append(out, postgres.Target{Name: d.Name, DSN: d.DSN})
	}
	return out
}

func (w *world) connect(target postgres.Target) *pgx.Conn {
	w.t.Helper()
	conn, err := postgres.Connect(w.t.Context(), target, "test")
	must(w.t, err)
	w.t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// forward makes one tick for some databases, as a catch-up that starts now does.
func (w *world) forward(names ...string) error {
	w.t.Helper()
	ctx := w.t.Context()
	term, err := store.NextTerm(ctx, w.conn)
	must(w.t, err)
	a, err := auditlog.New(auditlog.Config{Layout: w.layout, Source: w.sourceTarget(), Databases: w.targets(), Term: term})
	must(w.t, err)
	defer a.Close(ctx)
	for _, name := range names {
		must(w.t, store.RaiseOwnershipTerm(ctx, w.conn, "m", name, term))
	}
	_, err = a.Forward(ctx, names...)
	return err
}

func (w *world) tick() {
	w.t.Helper()
	must(w.t, w.forward(both...))
}

// Finish makes indexes and foreign keys, as the command does.
func (w *world) Finish(ctx context.Context, database string) error {
	conn := w.connect(postgres.Target{Name: database, DSN: migrate.Secret(w.dbs[database].DSN())})
	return target.Finish(ctx, w.connect(w.sourceTarget()), conn, w.layout, database, nil)
}

func (w *world) copy(only ...string) backfill.Result {
	w.t.Helper()
	res, err := backfill.Run(w.t.Context(), backfill.Config{Source: w.sourceTarget(), Databases: w.targets(), Layout: w.layout, Only: only, Workers: 2, Finisher: w})
	must(w.t, err)
	return res
}

// write changes the source: n makes it another change each time.
func (w *world) write(n int) {
	w.t.Helper()
	w.source.Exec(w.t, fmt.Sprintf(`UPDATE block SET body = 'changed %[1]d' WHERE id = %[1]d; UPDATE block SET workspace_id = workspace_id + 17 WHERE id = 40 + %[1]d;
	DELETE FROM comment WHERE id = %[1]d; INSERT INTO block VALUES (1000 + %[1]d, %[1]d, 'new %[1]d'); INSERT INTO comment VALUES (2000 + %[1]d, 1000 + %[1]d, 'new');
	UPDATE plan SET name = 'plan of %[1]d' WHERE id = 1`, n))
}

// stop stops capture at the log's hard limit.
func (w *world) stop() {
	w.t.Helper()
	l := *w.layout
	spec := *l.Spec
	spec.Capture.LogHardLimit = 1
	l.Spec = &spec
	size, err := auditlog.SourceSide(&l).CheckSize(w.t.Context(), w.conn)
	must(w.t, err)
	if !size.Stopped {
		w.t.Fatalf("capture goes on: %+v", size)
	}
}

func (w *world) gaps() (names []string) {
	w.t.Helper()
	gaps, err := auditlog.LoadGaps(w.t.Context(), w.conn, "m")
	must(w.t, err)
	for _, g := range gaps {
		names = append(names, g.Database)
	}
	return names
}

// look judges databases; those that Run is for.
func (w *world) look(names ...string) ([]Subject, error) {
	found, err := Look(w.t.Context(), w.conn, w.conns, w.layout, names)
	return slices.DeleteFunc(found, func(s Subject) bool { return s.Gap == "" }), err
}

func (w *world) restart(reached func(step, database string) error, names ...string) error {
	w.t.Helper()
	subjects, err := w.look(names...)
	must(w.t, err)
	if len(subjects) != len(names) {
		w.t.Fatalf("to be started anew are %v of %v", subjects, names)
	}
	return Run(w.t.Context(), Config{Layout: w.layout, Source: w.conn, Databases: w.conns, reached: reached}, subjects)
}

// equal compares every place of every database with the source.
func (w *world) equal() {
	w.t.Helper()
	for _, table := range w.layout.Tables {
		joins, key := table.KeyFrom("r")
		columns := postgres.Idents("r", layout.Names(table.Source.Columns))
		for name := range w.dbs {
			for _, loc := range w.layout.Locations(table, name) {
				where := "true"
				if !table.Everywhere() {
					where = fmt.Sprintf("'shard_' || (%s) = '%s'", w.layout.ShardSQL(table, key), loc.Schema)
				}
				want := w.source.Rows(w.t, fmt.Sprintf("SELECT %s FROM %s r%s WHERE %s ORDER BY r.id", columns, table.QualifiedSource(), joins, where))
				got := w.dbs[name].Rows(w.t, fmt.Sprintf("SELECT %s FROM %s r ORDER BY r.id", columns, w.layout.QualifiedTarget(table, loc)))
				if !slices.Equal(got, want) {
					w.t.Errorf("%s at %s of %s has %d rows, the source %d, or they differ", table.Name(), loc.Schema, name, len(got), len(want))
				}
			}
		}
	}
}

// rows counts what a database holds in all.
func (w *world) rows(name string) (n int) {
	w.t.Helper()
	for _, table := range w.layout.AllTargets(name) {
		n += len(w.dbs[name].Rows(w.t, "SELECT 1 FROM "+table))
	}
	return n
}
