package fence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func session(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(context.Background(), postgres.Target{Name: "source", DSN: migrate.Secret(db.DSN())}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

func name(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }

// spec has two databases of two shards; odd and even keys hash apart somewhere,
// which the tests ask the server for.
func spec(pattern string) *migrate.Spec {
	return &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db'0"}, {Name: "db1"}},
		Shards:    migrate.Shards{Count: 4, Schema: pattern, Hash: "postgres", Placement: []string{"db'0", "db'0", "db1", "db1"}},
		Tables: []migrate.Table{
			{Name: name(`Bl"ock`), Key: migrate.Key{Column: "Ws"}},
			{Name: name("comment"), Key: migrate.Key{From: name(`Bl"ock`), Via: "block_id"}},
			{Name: name("react"), Key: migrate.Key{From: name("comment"), Via: "comment_id"}},
			{Name: name("plan"), Everywhere: true},
		},
	}
}

// tables is the group; block is partitioned, two levels deep on one side.
const tables = `CREATE TABLE "Bl""ock" (id int PRIMARY KEY, "Ws" int) PARTITION BY RANGE (id);
CREATE TABLE b1 PARTITION OF "Bl""ock" FOR VALUES FROM (0) TO (1000) PARTITION BY RANGE (id);
CREATE TABLE b1a PARTITION OF b1 FOR VALUES FROM (0) TO (1000);
CREATE TABLE b2 PARTITION OF "Bl""ock" DEFAULT;
CREATE TABLE comment (id int PRIMARY KEY, block_id int REFERENCES "Bl""ock" ON DELETE CASCADE ON UPDATE CASCADE, n int DEFAULT 0);
CREATE TABLE react (id int PRIMARY KEY, comment_id int);
CREATE TABLE plan (id int PRIMARY KEY);`

func load(t *testing.T, conn *pgx.Conn, s *migrate.Spec) *layout.Layout {
	t.Helper()
	l, err := layout.Load(context.Background(), conn, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func run(t *testing.T, conn *pgx.Conn, statements []ddl.Statement) {
	t.Helper()
	if err := ddl.Run(context.Background(), conn, statements); err != nil {
		t.Fatal(err)
	}
}

// fenced is a source with dormant fences and the ownership rows they word from.
func fenced(t *testing.T, s *migrate.Spec) (*pgtest.Database, *pgx.Conn, *layout.Layout) {
	t.Helper()
	db := pgtest.NewDatabase(t)
	db.Exec(t, tables)
	conn := session(t, db)
	l := load(t, conn, s)
	if err := store.CreateSource(context.Background(), conn); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Databases {
		o := store.Ownership{Database: d.Name, Shards: s.Shards.ShardsOf(d.Name), Owner: store.OwnerSource, Epoch: 7}
		if err := store.SaveOwnership(context.Background(), conn, "m", o); err != nil {
			t.Fatal(err)
		}
	}
	statements := fence.SourceFunctions(l)
	for _, table := range l.Tables {
		statements = append(statements, fence.SourceTriggers(l, table)...)
	}
	if err := ddl.Create(context.Background(), conn, conn, statements); err != nil {
		t.Fatal(err)
	}
	return db, conn, l
}

// keyOn gives a key whose shard is on the database.
func keyOn(t *testing.T, conn *pgx.Conn, l *layout.Layout, database string) int {
	t.Helper()
	var key int
	sql := "SELECT min(k) FROM generate_series(1, 100) k WHERE " + l.ShardSQL(l.Tables[0], "k") + " = ANY($1)"
	if err := conn.QueryRow(context.Background(), sql, l.Spec.Shards.ShardsOf(database)).Scan(&key); err != nil {
		t.Fatal(err)
	}
	return key
}

// writes runs SQL in a fresh session of role and gives the server's error, nil if
// it passed.
func writes(t *testing.T, db *pgtest.Database, setup, sql string) *pgconn.PgError {
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
	if err != nil && !errors.As(err, &pgErr) {
		t.Fatal(err)
	}
	return pgErr
}

func expect(t *testing.T, db *pgtest.Database, setup, sql, code string, words ...string) {
	t.Helper()
	err := writes(t, db, setup, sql)
	switch {
	case code == "" && err != nil:
		t.Errorf("%s: %v (%s)", sql, err, err.Where)
	case code != "" && (err == nil || err.Code != code):
		t.Errorf("%s: %v, want %s", sql, err, code)
	}
	for _, word := range words {
		if err != nil && !strings.Contains(err.Message, word) {
			t.Errorf("%s: %q does not say %q", sql, err.Message, word)
		}
	}
}
