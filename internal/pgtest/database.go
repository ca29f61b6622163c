package pgtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds each statement of this package, so that a test that hangs on
// a lock fails and says where.
const patience = 60 * time.Second

// Database is a database of one test.
type Database struct {
	Name   string
	server server

	mu   sync.Mutex
	conn *pgx.Conn // for Exec, Value and Rows; opened by the first of them
}

// NewDatabase makes a fresh database on the shared server. When the test ends it
// is dropped, and the test fails if it left anything there.
func NewDatabase(t testing.TB) *Database {
	t.Helper()
	return newDatabase(t, sharedServer(t))
}

// NewDatabases makes n databases: a source and targets, on one server.
func NewDatabases(t testing.TB, n int) []*Database {
	t.Helper()
	databases := make([]*Database, n)
	for i := range databases {
		databases[i] = NewDatabase(t)
	}
	return databases
}

func newDatabase(t testing.TB, on server) *Database {
	t.Helper()
	db := &Database{Name: fmt.Sprintf("t_%016x", rand.Uint64()), server: on}
	administer(t, on, `CREATE DATABASE "`+db.Name+`" TEMPLATE template0`)
	t.Cleanup(func() { db.leave(t) })
	return db
}

// administer runs one statement in the server's database postgres.
func administer(t testing.TB, on server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, on.DSN("postgres"))
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// DSN says how to reach the database, as superuser.
func (db *Database) DSN() string { return db.server.DSN(db.Name) }

// Connect opens a connection that is closed when the test ends.
func (db *Database) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.DSN())
	if err != nil {
		t.Fatalf("pgtest: connect to %s: %v", db.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// Exec runs SQL: several statements if there are no arguments.
func (db *Database) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	db.with(t, sql, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

// Rows gives the rows of a query, each as the text of its values with "|"
// between them. NULL is the text NULL, so that it differs from an empty string.
func (db *Database) Rows(t testing.TB, sql string, args ...any) []string {
	t.Helper()
	var lines []string
	db.with(t, sql, func(ctx context.Context, conn *pgx.Conn) error {
		args := append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			lines = append(lines, line(rows.RawValues()))
		}
		return rows.Err()
	})
	return lines
}

func line(values [][]byte) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
		if value == nil {
			texts[i] = "NULL"
		}
	}
	return strings.Join(texts, "|")
}

// Value gives the one row of a query, as Rows does; any other number of rows
// fails the test.
func (db *Database) Value(t testing.TB, sql string, args ...any) string {
	t.Helper()
	rows := db.Rows(t, sql, args...)
	if len(rows) != 1 {
		t.Fatalf("pgtest: %s: %d rows, one was expected", sql, len(rows))
	}
	return rows[0]
}

// EndSessions ends the server's sessions for which a condition on pg_stat_activity holds,
// and waits until they are gone: the server itself waits from version 14 on.
func (db *Database) EndSessions(t testing.TB, condition string, args ...any) {
	t.Helper()
	db.with(t, "end sessions: "+condition, func(ctx context.Context, conn *pgx.Conn) error { return EndSessions(ctx, conn, condition, args...) })
}

// EndSessions is Database.EndSessions on a session of the test's own.
func EndSessions(ctx context.Context, conn *pgx.Conn, condition string, args ...any) error {
	rows, _ := conn.Query(ctx, "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND ("+condition+")", args...)
	var pids []int32
	var pid int32
	var sent bool
	_, err := pgx.ForEachRow(rows, []any{&pid, &sent}, func() error {
		pids = append(pids, pid)
		return nil
	})
	if err != nil {
		return err
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for left := len(pids); left > 0; <-poll.C {
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)", pids).Scan(&left); err != nil {
			return err
		}
	}
	return nil
}

// with runs f on the database's own connection, one caller at a time.
func (db *Database) with(t testing.TB, sql string, f func(context.Context, *pgx.Conn) error) {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := db.open(ctx); err != nil {
		t.Fatalf("pgtest: connect to %s: %v", db.Name, err)
	}
	if err := f(ctx, db.conn); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// open connects, also again after the test ended the connection's backend or
// restarted the server.
func (db *Database) open(ctx context.Context) error {
	if db.conn != nil && db.conn.Ping(ctx) == nil {
		return nil
	}
	config, err := pgx.ParseConfig(db.DSN())
	if err != nil {
		return err
	}
	// Nothing is cached: tests change tables between two runs of one query.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	db.conn, err = pgx.ConnectConfig(ctx, config)
	return err
}

func (db *Database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = db.conn.Close(ctx)
	db.conn = nil
}
