package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
)

// Backend is one server process, told from a later one of the same pid by its start.
type Backend struct {
	PID   int32
	Start time.Time
}

// ReadBackend gives the session's own backend.
func ReadBackend(ctx context.Context, q Querier) (Backend, error) {
	var b Backend
	err := q.QueryRow(ctx, "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&b.PID, &b.Start)
	if err != nil {
		return Backend{}, fmt.Errorf("read own backend: %w", err)
	}
	return b, nil
}

// TerminateBackend ends a backend and waits until it is gone: only then is it
// known that none of its commits is still in flight. A backend that does not
// exist any more is a success. The wait ends with ctx.
func TerminateBackend(ctx context.Context, q Querier, b Backend) error {
	const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()`
	const gone = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)`
	if _, err := q.Exec(ctx, end, b.PID, b.Start); err != nil {
		return fmt.Errorf("terminate backend %d: %w", b.PID, err)
	}
	for {
		var done bool
		if err := q.QueryRow(ctx, gone, b.PID, b.Start).Scan(&done); err != nil {
			return fmt.Errorf("wait for the end of backend %d: %w", b.PID, err)
		}
		if done {
			return nil
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the end of backend %d: %w", b.PID, err)
		}
	}
}

// QuickTimeouts bounds every statement of a session by the server: a process
// that stops cannot hold what it took for longer.
func QuickTimeouts(ctx context.Context, conn *pgx.Conn, statement, idle time.Duration) error {
	sql := fmt.Sprintf("SET statement_timeout = %d; SET idle_in_transaction_session_timeout = %d", statement.Milliseconds(), idle.Milliseconds())
	_, err := conn.Exec(ctx, sql)
	return err
}
