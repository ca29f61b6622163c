package cases

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// lane is two servers, for one case at a time: a case may make roles, which a whole
// server has in common.
type lane struct {
	source, target *pgtest.Cluster
}

func newLane(t testing.TB) *lane {
	t.Helper()
	dir, err := os.MkdirTemp("", "shardctl-cases-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	hba := filepath.Join(dir, "pg_hba.conf")
	must(t, os.WriteFile(hba, []byte("local all all trust\nhost all \"case user@x\" 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"), 0o644))
	settings := []string{"password_encryption=scram-sha-256", "hba_file='" + hba + "'", "max_connections=120", "shared_buffers=64MB", "max_wal_size=2GB", "max_prepared_transactions=5", "wal_level=logical"}
	return &lane{
		source: pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: settings}),
		target: pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: settings}),
	}
}

// place is one database of a case.
type place struct {
	name   string // "source", "db0", "db1"
	server *pgtest.Cluster
	dbname string
}

// dsn reaches it as the superuser, or as another role.
func (p place) dsn(role string) string {
	u, err := url.Parse(p.server.DSN(p.dbname))
	if err != nil {
		return p.server.DSN(p.dbname)
	}
	if role != "" {
		u.User = url.User(role)
	}
	return u.String()
}

// on opens a superuser's session for one piece of work, under settings that make text
// mean the same everywhere.
func (p place) on(ctx context.Context, work func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.dsn(""))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	const pinned = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET default_transaction_read_only = off; SET row_security = off;
		SET DateStyle = 'ISO, YMD'; SET IntervalStyle = postgres; SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET bytea_output = hex; SET xmloption = content; SET search_path = public; SET lc_monetary = 'C'; SET standard_conforming_strings = on`
	if err := execute(ctx, conn, statement{sql: pinned}); err != nil {
		return err
	}
	return work(conn)
}

func (p place) exec(ctx context.Context, sql string) error {
	err := p.on(ctx, func(conn *pgx.Conn) error { return execute(ctx, conn, statement{sql: sql}) })
	if err != nil {
		return fmt.Errorf("%s: %.200s: %w", p.name, sql, err)
	}
	return nil
}

// texts reads one column.
func (p place) texts(ctx context.Context, sql string) (out []string, err error) {
	err = p.on(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %.200s: %w", p.name, sql, err)
	}
	return out, nil
}

// create makes the place's database.
func (p place) create(ctx context.Context, encoding string) error {
	admin := place{name: p.name, server: p.server, dbname: "postgres"}
	return admin.exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 %s", p.dbname, encoding))
}

func (p place) drop(ctx context.Context) error {
	admin := place{name: p.name, server: p.server, dbname: "postgres"}
	return admin.exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", p.dbname))
}

// dropRoles removes the roles that a case made.
func (l *lane) dropRoles(ctx context.Context) error {
	for _, server := range []*pgtest.Cluster{l.source, l.target} {
		admin := place{name: "server", server: server, dbname: "postgres"}
		roles, err := admin.texts(ctx, `SELECT format('%I', rolname) FROM pg_roles WHERE rolname LIKE 'case%'`)
		if err != nil {
			return err
		}
		for _, r := range roles {
			if err := admin.exec(ctx, "DROP ROLE "+r); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodingOf is what a case demands of its databases.
func encodingOf(f *file) string {
	if strings.Contains(f.needs, "encoding=SQL_ASCII") {
		return "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
	}
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
