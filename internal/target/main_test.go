package target_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func session(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(context.Background(), postgres.Target{Name: db.Name, DSN: migrate.Secret(db.DSN())}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// rig is a source and the databases of a spec, those that a test names.
type rig struct {
	source    *pgtest.Database
	databases map[string]*pgtest.Database
	conns     map[string]*pgx.Conn // "source" and the databases'
	layout    *layout.Layout
}

func newRig(t *testing.T, ddl string, spec *migrate.Spec, databases ...string) *rig {
	t.Helper()
	all := pgtest.NewDatabases(t, len(databases)+1)
	r := &rig{source: all[0], databases: map[string]*pgtest.Database{}, conns: map[string]*pgx.Conn{"source": session(t, all[0])}}
	r.source.Exec(t, ddl)
	if err := store.CreateSource(t.Context(), r.conns["source"]); err != nil {
		t.Fatal(err)
	}
	for i, name := range databases {
		r.databases[name], r.conns[name] = all[i+1], session(t, all[i+1])
		if err := store.CreateDatabase(t.Context(), r.conns[name]); err != nil {
			t.Fatal(err)
		}
		c := store.Control{Database: name, Owner: store.OwnerSource, Epoch: 1, Shards: spec.Shards.ShardsOf(name)}
		if err := store.SaveControl(t.Context(), r.conns[name], spec.Migration, c); err != nil {
			t.Fatal(err)
		}
	}
	r.load(t, spec)
	return r
}

func (r *rig) load(t *testing.T, spec *migrate.Spec) {
	t.Helper()
	l, err := layout.Load(t.Context(), r.conns["source"], spec)
	if err != nil {
		t.Fatal(err)
	}
	r.layout = l
}

func (r *rig) tryPrepare(name string) error {
	return target.Prepare(context.Background(), r.conns["source"], r.conns[name], r.layout, name)
}

func (r *rig) prepare(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := r.tryPrepare(name); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *rig) tryFinish(name string) error {
	return target.Finish(context.Background(), r.conns["source"], r.conns[name], r.layout, name, nil)
}

func (r *rig) finish(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := r.tryFinish(name); err != nil {
			t.Fatal(err)
		}
	}
}

type turner func(context.Context, postgres.Querier, *layout.Layout, string) error

func (r *rig) turn(t *testing.T, name string, how turner) {
	t.Helper()
	err := postgres.WithTx(context.Background(), r.conns[name], pgx.TxOptions{}, func(tx pgx.Tx) error {
		return how(context.Background(), tx, r.layout, name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// writes runs SQL in a session of its own and gives the SQLSTATE, "" if it passed.
func writes(t *testing.T, db *pgtest.Database, setup, sql string) (string, string) {
	t.Helper()
	conn := db.Connect(t)
	defer func() { _ = conn.Close(context.Background()) }()
	if setup != "" {
		if _, err := conn.Exec(context.Background(), setup); err != nil {
			t.Fatal(err)
		}
	}
	_, err := conn.Exec(context.Background(), sql)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code, pgErr.Message
	}
	if err != nil {
		t.Fatal(err)
	}
	return "", ""
}

func expect(t *testing.T, db *pgtest.Database, setup, sql, code string) {
	t.Helper()
	if got, message := writes(t, db, setup, sql); got != code {
		t.Errorf("%s: %q %s, want %q", sql, got, message, code)
	}
}

// show compares the rows of a query with lines.
func show(t *testing.T, db *pgtest.Database, sql string, want ...string) {
	t.Helper()
	got := db.Rows(t, sql)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", sql, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func name(schema, n string) migrate.TableName { return migrate.TableName{Schema: schema, Name: n} }

func refused(t *testing.T, err error, code, object string) {
	t.Helper()
	var f *migrate.Failure
	if !errors.As(err, &f) || f.Code != code || !strings.Contains(f.Object, object) || f.Exit != migrate.ExitRefused || f.Hint == "" {
		t.Errorf("%v, want %s of %s", err, code, object)
	}
}
