package auditlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// stage is a source and databases as prepare leaves them, without capture.
type stage struct {
	spec   *migrate.Spec
	layout *layout.Layout
	source *pgtest.Database
	dbs    []*pgtest.Database
}

// stageSpec describes one.
type stageSpec struct {
	ddl       string          // of the tables, in schema public
	tables    []migrate.Table // defaults to the one table public.block by workspace_id
	databases int             // defaults to none: the source's side alone
	count     int             // defaults to 4
	schema    string          // defaults to "shard_%d"
	source    *pgtest.Database
}

func newStage(t testing.TB, ss stageSpec) *stage {
	t.Helper()
	if ss.tables == nil {
		ss.tables = []migrate.Table{ownKey("block", "workspace_id")}
	}
	if ss.count == 0 {
		ss.count = 4
	}
	if ss.schema == "" {
		ss.schema = "shard_%d"
	}
	if ss.source == nil {
		ss.source = pgtest.NewDatabase(t)
	}
	s := &stage{source: ss.source, dbs: pgtest.NewDatabases(t, ss.databases)}
	s.spec = &migrate.Spec{Version: 1, Migration: "m", Tables: ss.tables, Shards: migrate.Shards{Count: ss.count, Schema: ss.schema, Hash: "postgres"}}
	for i := range s.dbs {
		s.spec.Databases = append(s.spec.Databases, migrate.Database{Name: fmt.Sprintf("db%d", i)})
	}
	if len(s.dbs) == 0 {
		s.spec.Databases = []migrate.Database{{Name: "db0"}}
	}
	for shard := range ss.count {
		s.spec.Shards.Placement = append(s.spec.Shards.Placement, s.spec.Databases[shard%len(s.spec.Databases)].Name)
	}
	s.source.Exec(t, ss.ddl)
	conn := s.connect(t, s.env().Source)
	must(t, store.CreateSource(t.Context(), conn))
	must(t, store.InsertMigration(t.Context(), conn, store.Migration{Name: "m", Phase: migrate.Prepared, SpecDigest: "x", Spec: []byte("{}"), SystemIdentifier: "1"}))
	for _, d := range s.spec.Databases {
		must(t, store.SaveOwnership(t.Context(), conn, "m", store.Ownership{Database: d.Name, Shards: s.spec.Shards.ShardsOf(d.Name), Owner: store.OwnerSource}))
	}
	for i := range s.dbs {
		s.prepare(t, i, ss.ddl)
	}
	s.reload(t)
	return s
}

func (s *stage) prepare(t testing.TB, i int, ddl string) {
	t.Helper()
	conn := s.connect(t, s.env().Databases[i])
	must(t, store.CreateDatabase(t.Context(), conn))
	must(t, store.SaveControl(t.Context(), conn, "m", store.Control{Database: s.spec.Databases[i].Name, Owner: store.OwnerSource}))
	var sql strings.Builder
	for _, schema := range s.spec.Schemas(s.spec.Databases[i].Name) {
		if schema != "public" {
			fmt.Fprintf(&sql, "CREATE SCHEMA %s;\n", postgres.Ident(schema))
		}
		sql.WriteString(strings.ReplaceAll(ddl, "public.", postgres.Ident(schema)+".") + ";\n")
	}
	s.dbs[i].Exec(t, sql.String())
}

// reload reads the layout again, after a DDL.
func (s *stage) reload(t testing.TB) {
	t.Helper()
	var err error
	s.layout, err = layout.Load(t.Context(), s.connect(t, s.env().Source), s.spec)
	must(t, err)
}

func (s *stage) env() auditlog.Env {
	env := auditlog.Env{Layout: s.layout, Source: postgres.Target{Name: "source", DSN: migrate.Secret(s.source.DSN())}}
	for i, d := range s.dbs {
		env.Databases = append(env.Databases, postgres.Target{Name: s.spec.Databases[i].Name, DSN: migrate.Secret(d.DSN())})
	}
	return env
}

func (s *stage) connect(t testing.TB, target postgres.Target) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), target, "test")
	must(t, err)
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

func (s *stage) install(t testing.TB) {
	t.Helper()
	must(t, auditlog.Install(t.Context(), s.env()))
}

// installed is a stage with capture.
func installed(t testing.TB, ss stageSpec) *stage {
	t.Helper()
	s := newStage(t, ss)
	s.install(t)
	return s
}

func ownKey(table, column string) migrate.Table {
	return migrate.Table{Name: migrate.TableName{Schema: "public", Name: table}, Key: migrate.Key{Column: column}}
}

// logOf gives a table's entries in both segments, in the order of their making.
func logOf(t testing.TB, d *pgtest.Database, table int, columns string) []string {
	t.Helper()
	return d.Rows(t, fmt.Sprintf(`SELECT %[2]s FROM (SELECT * FROM shardctl.m_log_%[1]d_0 UNION ALL SELECT * FROM shardctl.m_log_%[1]d_1) l ORDER BY xid, seq`, table, columns))
}

func wantRows(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got  %q\n want %q", what, got, want)
	}
}

// failure checks an error's code and that it names what a person needs.
func failure(t testing.TB, err error, code string, mentions ...string) {
	t.Helper()
	f := failureOf(err)
	if f == nil || f.Code != code {
		t.Fatalf("error is %v, wanted a failure %s", err, code)
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%q does not mention %q", err, m)
		}
	}
}
