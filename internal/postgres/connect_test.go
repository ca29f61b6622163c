package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// What a role has as its default must not end a session of ours, nor bend what it reads.
func TestSessionsDoNotTakeTheDefaultsOfTheirRole(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	role := "hostile_" + db.Name
	settings := map[string][2]string{ // the default of the role, and what a session must have
		"statement_timeout": {"'1s'", "0"}, "lock_timeout": {"'1ms'", "0"}, "idle_in_transaction_session_timeout": {"'1ms'", "0"}, "idle_session_timeout": {"100", "0"},
		"default_transaction_isolation": {"serializable", "read committed"}, "default_transaction_read_only": {"on", "off"}, "search_path": {"public", "pg_catalog"},
		"datestyle": {"'SQL, DMY'", "ISO, YMD"}, "intervalstyle": {"sql_standard", "postgres"}, "timezone": {"'Asia/Kolkata'", "UTC"}, "extra_float_digits": {"-15", "3"},
		"bytea_output": {"escape", "hex"}, "standard_conforming_strings": {"off", "on"}, "synchronous_commit": {"off", "on"}, "transform_null_equals": {"on", "off"}, "row_security": {"on", "off"},
	}
	if db.Value(t, "SELECT current_setting('idle_session_timeout', true) IS NULL") == "t" {
		delete(settings, "idle_session_timeout") // from version 14 on
	}
	sql := "CREATE ROLE " + role + " LOGIN"
	for name, values := range settings {
		sql += "; ALTER ROLE " + role + " SET " + name + " = " + values[0]
	}
	db.Exec(t, sql)
	t.Cleanup(func() { db.Exec(t, "DROP ROLE "+role) })
	dsn := strings.Replace(db.DSN(), "postgres@", role+"@", 1)
	conn, err := postgres.Connect(t.Context(), postgres.Target{Name: "source", DSN: migrate.Secret(dsn)}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	for name, values := range settings {
		var is string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&is); err != nil || is != values[1] {
			t.Errorf("%s is %q, want %q (%v)", name, is, values[1], err)
		}
	}
	var user string
	if err := conn.QueryRow(t.Context(), "SELECT current_user").Scan(&user); err != nil || user != role {
		t.Errorf("the session is of %q (%v)", user, err)
	}
}

// A server that refuses the connection may be there again; one that knows no such database
// has said so.
func TestWhatMayPassOfConnecting(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for name, c := range map[string]struct {
		dsn     string
		passing bool
	}{
		"nobody listens":   {"host=127.0.0.1 port=1 dbname=x", true},
		"no such database": {strings.Replace(db.DSN(), db.Name, "nowhere", 1), false},
	} {
		_, err := postgres.Connect(t.Context(), postgres.Target{Name: "source", DSN: migrate.Secret(c.dsn)}, "test")
		if err == nil || postgres.Passing(err) != c.passing || postgres.Passing(fmt.Errorf("wrapped: %w", err)) != c.passing {
			t.Errorf("%s: passing is %v: %v", name, !c.passing, err)
		}
	}
	// A server that goes down under Connect: the driver has no type for this.
	if err := fmt.Errorf("connect to source: pin settings: %w", errors.New("conn closed")); !postgres.Passing(errors.Join(err, nil)) {
		t.Errorf("not passing: %v", err)
	}
}
