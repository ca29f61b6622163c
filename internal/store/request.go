package store

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

// RequestHandover asks a running applier to end its ticks and release its lease.
func RequestHandover(ctx context.Context, source postgres.Querier, migration, kind string) error {
	const sql = `INSERT INTO shardctl.request (migration, kind) VALUES ($1, $2)
	ON CONFLICT (migration) DO UPDATE SET kind = excluded.kind, requested_at = clock_timestamp(), answered_at = NULL`
	if _, err := source.Exec(ctx, sql, migration, kind); err != nil {
		return fmt.Errorf("ask catchup to hand over: %w", err)
	}
	return nil
}

// HandoverRequested reports whether an unanswered request stands.
func HandoverRequested(ctx context.Context, source postgres.Querier, migration string) (bool, error) {
	var asked bool
	const sql = `SELECT EXISTS (SELECT FROM shardctl.request WHERE migration = $1 AND answered_at IS NULL)`
	if err := source.QueryRow(ctx, sql, migration).Scan(&asked); err != nil {
		return false, fmt.Errorf("look for a handover request: %w", err)
	}
	return asked, nil
}

// AnswerHandover says that the applier's lease is released.
func AnswerHandover(ctx context.Context, source postgres.Querier, migration string) error {
	if _, err := source.Exec(ctx, "UPDATE shardctl.request SET answered_at = clock_timestamp() WHERE migration = $1", migration); err != nil {
		return fmt.Errorf("answer the handover request: %w", err)
	}
	return nil
}

// HandoverAnswered reports whether the request has been answered.
func HandoverAnswered(ctx context.Context, source postgres.Querier, migration string) (bool, error) {
	var done bool
	const sql = `SELECT EXISTS (SELECT FROM shardctl.request WHERE migration = $1 AND answered_at IS NOT NULL)`
	if err := source.QueryRow(ctx, sql, migration).Scan(&done); err != nil {
		return false, fmt.Errorf("look for the handover's answer: %w", err)
	}
	return done, nil
}

// ClearHandover withdraws a request: the switch is over, the applier may go on.
func ClearHandover(ctx context.Context, source postgres.Querier, migration string) error {
	if _, err := source.Exec(ctx, "DELETE FROM shardctl.request WHERE migration = $1", migration); err != nil {
		return fmt.Errorf("withdraw the handover request: %w", err)
	}
	return nil
}
