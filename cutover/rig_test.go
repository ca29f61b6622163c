package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) {
	if raw, is := os.LookupEnv(orderVariable); is {
		os.Exit(obey(raw))
	}
	pgtest.Main(m)
}

// rig is a migration that is ready to be cut over: real capture, applier, fences
// and a router file. Only the verdict of verification is the test's.
type rig struct {
	t                *testing.T
	source, db0, db1 *pgtest.Database
	cfg              cutover.Config
	verdict          *verdict
	spec             string // its text
}

// verdict stands for a verification; exact may hook into the window.
type verdict struct {
	mu    sync.Mutex
	exact func(context.Context) error
	full  int // rounds that leave too much to compare
	asked int // rounds
}

func (v *verdict) Gate(context.Context, []string, time.Duration) error { return nil }
func (v *verdict) Delta(context.Context, []string) error               { return nil }
func (v *verdict) Room(context.Context, []string) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	return v.asked > v.full, nil
}
func (v *verdict) Exact(ctx context.Context, _ []string) error {
	v.mu.Lock()
	hook := v.exact
	v.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

func (v *verdict) set(hook func(context.Context) error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.exact = hook
}

type whole struct{}

func (whole) Whole(context.Context, string) error { return nil }

func newRig(t *testing.T) *rig {
	t.Helper()
	dbs := pgtest.NewDatabases(t, 3)
	return newRigOn(t, dbs[0], dbs[1], dbs[2])
}

func newRigOn(t *testing.T, source, db0, db1 *pgtest.Database) *rig {
	t.Helper()
	r := &rig{t: t, source: source, db0: db0, db1: db1, verdict: &verdict{}}
	r.source.Exec(t, "CREATE TABLE item (id bigserial PRIMARY KEY, owner int NOT NULL, body text)")
	r.spec = fmt.Sprintf("version: 1\nmigration: m\nsource: {dsn: %q}\ndatabases:\n  db0: {dsn: %q}\n  db1: {dsn: %q}\nshards: {count: 4, schema: \"s_%%d\", hash: postgres, placement: {db0: 0-1, db1: 2-3}}\ntables:\n  - {name: item, key: owner}\ntopology:\n  - {driver: file, path: %q}\n",
		r.source.DSN(), r.db0.DSN(), r.db1.DSN(), filepath.Join(t.TempDir(), "topology.json"))
	spec, err := migrate.Decode("test.yaml", []byte(r.spec), os.LookupEnv)
	must(t, err)
	r.prepare(spec)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) prepare(spec *migrate.Spec) {
	t, ctx := r.t, r.t.Context()
	t.Helper()
	source := r.connect("source", r.source)
	must(t, store.CreateSource(ctx, source))
	must(t, store.InsertMigration(ctx, source, store.Migration{Name: "m", Phase: migrate.New, Spec: []byte("{}")}))
	l, err := layout.Load(ctx, source, spec)
	must(t, err)
	r.cfg = configOf(l, r.verdict, func(a *auditlog.Applier) { t.Cleanup(func() { a.Close(context.Background()) }) })
	for i, d := range []*pgtest.Database{r.db0, r.db1} {
		name := fmt.Sprintf("db%d", i)
		conn := r.connect(name, d)
		must(t, store.CreateDatabase(ctx, conn))
		id, err := postgres.ReadIdentity(ctx, conn)
		must(t, err)
		must(t, store.SaveMember(ctx, source, "m", name, id))
		o := store.Ownership{Database: name, Shards: spec.Shards.ShardsOf(name), Owner: store.OwnerSource, Epoch: 1}
		must(t, store.SaveOwnership(ctx, source, "m", o))
		must(t, store.SaveControl(ctx, conn, "m", store.Control{Database: name, Owner: o.Owner, Epoch: 1, Shards: o.Shards}))
		must(t, target.Prepare(ctx, source, conn, l, name))
	}
	must(t, auditlog.Install(ctx, auditlog.Env{Layout: l, Source: r.cfg.Source, Databases: r.cfg.Databases}))
	for i, d := range []*pgtest.Database{r.db0, r.db1} {
		must(t, target.Finish(ctx, source, r.connect("finish", d), l, fmt.Sprintf("db%d", i), nil))
	}
	r.source.Exec(t, "UPDATE shardctl.migration SET phase = 'backfilled'")
	r.source.Exec(t, "INSERT INTO item (owner, body) SELECT i, 'old' FROM generate_series(1, 40) i")
}

// configOf is a switch's configuration; made is given each applier, to close it.
func configOf(l *layout.Layout, v *verdict, made func(*auditlog.Applier)) cutover.Config {
	spec := l.Spec
	cfg := cutover.Config{Layout: l, Source: postgres.Target{Name: "source", DSN: spec.Source.DSN}, MaxPause: 10 * time.Second, Verifier: v, Copy: whole{},
		Routers: []topology.Router{file.New(spec, spec.Topology[0])}}
	for _, d := range spec.Databases {
		cfg.Databases = append(cfg.Databases, postgres.Target{Name: d.Name, DSN: d.DSN})
	}
	cfg.Applier = func(_ context.Context, term int64) (cutover.Applier, error) {
		a, err := auditlog.New(auditlog.Config{Layout: l, Source: cfg.Source, Databases: cfg.Databases, Term: term})
		if err == nil {
			made(a)
		}
		return a, err
	}
	return cfg
}

func (r *rig) connect(name string, d *pgtest.Database) *pgx.Conn {
	r.t.Helper()
	conn, err := postgres.Connect(r.t.Context(), postgres.Target{Name: name, DSN: migrate.Secret(d.DSN())}, "test")
	must(r.t, err)
	r.t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// refused reports whether a write is refused by a fence.
func refused(t *testing.T, d *pgtest.Database, sql string) bool {
	t.Helper()
	conn := d.Connect(t)
	_, err := conn.Exec(t.Context(), sql)
	if err != nil && postgres.SQLState(err) != "25006" {
		t.Fatalf("%s: %v", sql, err)
	}
	return err != nil
}

const (
	writeSource = "INSERT INTO item (owner, body) VALUES (1, 'x')"
	writeDB0    = "UPDATE s_0.item SET body = 'y'"
)

// serving checks who may write.
func (r *rig) serving(source, databases bool) {
	r.t.Helper()
	if got := !refused(r.t, r.source, writeSource); got != source {
		r.t.Errorf("the source serves: %v, want %v", got, source)
	}
	if got := !refused(r.t, r.db0, writeDB0); got != databases {
		r.t.Errorf("the databases serve: %v, want %v", got, databases)
	}
}

// watched runs a watchdog's process in this one, over pipes like the real ones.
func (r *rig) watched(acted chan<- error) func(context.Context, cutover.Watch) (cutover.Watchdog, error) {
	return func(ctx context.Context, w cutover.Watch) (cutover.Watchdog, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			did, err := cutover.Guard(context.Background(), r.cfg, w.Direction, inR, outW)
			if !did {
				err = errors.Join(err, errNotActed)
			}
			_, _ = inR.Close(), outW.Close() // as the end of the process does
			acted <- err
		}()
		return cutover.NewGuarded(ctx, w, inW, outR)
	}
}

var errNotActed = errors.New("the watchdog had nothing to do")
