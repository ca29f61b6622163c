package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/migrate"
)

// Querier is what a connection, a transaction and a pool have in common.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Target is a server to connect to, with the name that messages use for it.
type Target struct {
	Name string // "source" or the database's name in the spec
	DSN  migrate.Secret
}

// pins are the settings every session of ours has. A role or a database may
// default any of them to something that changes a value's text form, hides
// rows, or ends a session in the middle of its work. Servers before 14 and 17 have
// not all of them.
const pins = `SET search_path = pg_catalog;
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SET timezone = 'UTC';
SET extra_float_digits = 3;
SET bytea_output = 'hex';
SET xmloption = 'content';
SET lc_monetary = 'C';
SET standard_conforming_strings = on;
SET escape_string_warning = off;
SET quote_all_identifiers = off;
SET row_security = off;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET synchronous_commit = on;
SET client_min_messages = warning;
SET jit = off;
SET transform_null_equals = off;
SELECT set_config(name, '0', false) FROM unnest(ARRAY['idle_session_timeout', 'transaction_timeout']) name WHERE current_setting(name, true) IS NOT NULL;`

// Connect opens a direct session with pinned settings. Purpose goes into the
// session's application_name ("shardctl catchup"). The error of a session that
// cannot be had is a *migrate.Failure (exit 1; with a pooler in between 4) that names the target and holds
// no secret.
func Connect(ctx context.Context, t Target, purpose string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(t.DSN.Reveal())
	if err != nil {
		return nil, migrate.Usage("dsn.malformed", t.Name, "the DSN cannot be parsed", "give a postgres:// URL or key=value pairs")
	}
	prepare(cfg, purpose)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectFailure(t, cfg, err)
	}
	if err := direct(ctx, t, conn); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	if err := pin(ctx, conn); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: pin settings: %w", t.Name, err), conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// direct refuses a session that leads through a pooler: advisory locks and SET would
// leak to its other clients. A pooler invents the process id that it tells a client, so
// it differs from the server's own word.
func direct(ctx context.Context, t Target, conn *pgx.Conn) error {
	var pid string
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_backend_pid()").ReadAll() // prepares nothing, sets nothing
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 {
		pid = string(results[0].Rows[0][0])
	}
	switch {
	case err != nil:
		return fmt.Errorf("connect to %s: %w", t.Name, err)
	case pid != strconv.FormatUint(uint64(conn.PgConn().PID()), 10):
		return migrate.Refuse("connect.pooler", t.Name, "the DSN leads through a pooler", "give the server's own address")
	}
	return nil
}

// Pool opens a bounded pool of sessions like Connect's.
func Pool(ctx context.Context, t Target, purpose string, limit int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(t.DSN.Reveal())
	if err != nil {
		return nil, migrate.Usage("dsn.malformed", t.Name, "the DSN cannot be parsed", "give a postgres:// URL or key=value pairs")
	}
	prepare(cfg.ConnConfig, purpose)
	cfg.MaxConns, cfg.MinConns = limit, 0
	cfg.AfterConnect = pin
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, connectFailure(t, cfg.ConnConfig, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, connectFailure(t, cfg.ConnConfig, err)
	}
	return pool, nil
}

func prepare(cfg *pgx.ConnConfig, purpose string) {
	cfg.RuntimeParams["application_name"] = "shardctl " + purpose
	cfg.Fallbacks = append([]*pgconn.FallbackConfig(nil), cfg.Fallbacks...)
	cfg.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	cfg.BuildFrontend = boundedFrontend
}

func pin(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, pins); err != nil {
		return err
	}
	// A SQL_ASCII server has no conversions: its bytes are passed on as they are.
	if conn.PgConn().ParameterStatus("server_encoding") == "SQL_ASCII" {
		_, err := conn.Exec(ctx, "SET client_encoding = 'SQL_ASCII'")
		return err
	}
	_, err := conn.Exec(ctx, "SET client_encoding = 'UTF8'")
	return err
}

// connectFailed is the code where no server has answered: see Passing.
const connectFailed = "connect.failed"

// connectFailure says where and why, without the connection string.
func connectFailure(t Target, cfg *pgx.ConnConfig, err error) error {
	if ctxErr := contextCause(err); ctxErr != nil {
		return fmt.Errorf("connect to %s: %w", t.Name, ctxErr)
	}
	where := fmt.Sprintf("%s (%s:%d, database %s, user %s)", t.Name, cfg.Host, cfg.Port, cfg.Database, cfg.User)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		hint := "check the DSN and the server's pg_hba.conf"
		if pgErr.Code == "53300" {
			hint = "raise max_connections or end idle sessions"
		}
		return migrate.Broken("connect.refused", where, "the server refused the connection", hint, pgErr)
	}
	reason := strings.ReplaceAll(err.Error(), cfg.Password, "***")
	if cfg.Password == "" {
		reason = err.Error()
	}
	if i := strings.LastIndex(reason, "): "); strings.HasPrefix(reason, "failed to connect to `") && i >= 0 {
		reason = reason[i+3:]
	}
	return migrate.Broken(connectFailed, where, "cannot connect", "is the server up and reachable from this host?", errors.New(reason))
}

func contextCause(err error) error {
	for _, c := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, c) {
			return c
		}
	}
	return nil
}

// BecomeApplier marks the session as the applier of a migration, which our
// triggers skip, and takes replica role where the login may: then neither FK
// actions nor user triggers fire. It reports whether replica role was had.
func BecomeApplier(ctx context.Context, conn *pgx.Conn, migration string) (replica bool, err error) {
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.set_config('shardctl.applier', $1, false)", migration); err != nil {
		return false, fmt.Errorf("become applier: %w", err)
	}
	_, err = conn.Exec(ctx, "SET session_replication_role = replica")
	if SQLState(err) == "42501" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("become applier: %w", err)
	}
	return true, nil
}
