package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Quarantined counts what cannot be applied, on the side that is written.
func Quarantined(ctx context.Context, q postgres.Querier, migration, database string, d Direction) (n int, err error) {
	const sql = `SELECT count(*) FROM shardctl.quarantine WHERE migration = $1 AND database = $2 AND direction = $3`
	if err = q.QueryRow(ctx, sql, migration, database, d).Scan(&n); err != nil {
		return 0, fmt.Errorf("count quarantined keys: %w", err)
	}
	return n, nil
}

// Gap reads why a database's position cannot be followed any more; "" if it can.
func Gap(ctx context.Context, q postgres.Querier, migration, database string, d Direction) (reason string, err error) {
	const sql = `SELECT coalesce((SELECT reason FROM shardctl.gap WHERE migration = $1 AND database = $2 AND direction = $3), '')`
	if err = q.QueryRow(ctx, sql, migration, database, d).Scan(&reason); err != nil {
		return "", fmt.Errorf("look for a gap: %w", err)
	}
	return reason, nil
}

// Strays counts the writes on the source to shards of a database that it owned by then,
// and that no rollback has settled since.
func Strays(ctx context.Context, q postgres.Querier, migration, database string) (n int, err error) {
	const sql = `SELECT count(*) FROM shardctl.stray WHERE migration = $1 AND database = $2 AND reread_at IS NULL`
	if err = q.QueryRow(ctx, sql, migration, database).Scan(&n); err != nil {
		return 0, fmt.Errorf("count stray writes: %w", err)
	}
	return n, nil
}

// LastPause is how long the last finished switch held the routers, by the
// journal; nil where there was none.
func LastPause(ctx context.Context, q postgres.Querier, migration string) (*float64, error) {
	const sql = `SELECT (extract(epoch FROM r.at - p.at) * 1000)::float8 FROM shardctl.journal r JOIN shardctl.journal p USING (migration, attempt)
	WHERE migration = $1 AND r.step = 'resume' AND r.outcome = 'ok' AND p.step = 'pause' AND p.outcome = 'started' ORDER BY r.at DESC LIMIT 1`
	var ms *float64
	err := q.QueryRow(ctx, "SELECT ("+sql+")", migration).Scan(&ms)
	if err != nil {
		return nil, fmt.Errorf("read the last pause: %w", err)
	}
	return ms, nil
}

// StepTimes is how long each step of a command took the last time that it went well, in
// milliseconds, by the journal.
func StepTimes(ctx context.Context, q postgres.Querier, migration, command string) (map[string]float64, error) {
	const sql = `SELECT DISTINCT ON (step) step, (detail->>'ms')::float8 FROM shardctl.journal
	WHERE migration = $1 AND command = $2 AND outcome = 'ok' AND detail->>'ms' IS NOT NULL ORDER BY step, at DESC`
	rows, err := q.Query(ctx, sql, migration, command)
	if err != nil {
		return nil, fmt.Errorf("read the steps of the last %s: %w", command, err)
	}
	times := map[string]float64{}
	var step string
	var ms float64
	if _, err := pgx.ForEachRow(rows, []any{&step, &ms}, func() error { times[step] = ms; return nil }); err != nil {
		return nil, fmt.Errorf("read the steps of the last %s: %w", command, err)
	}
	return times, nil
}

// ApplyRate is how fast the running catch-up brings rows into the databases, in rows a
// second of its time at work; nil where none runs or none was measured.
func ApplyRate(ctx context.Context, q postgres.Querier, migration string) (rate *float64, err error) {
	const sql = `SELECT (SELECT l.rows_per_s FROM shardctl.lease l JOIN pg_stat_activity a ON a.pid = l.backend_pid AND a.backend_start = l.backend_start WHERE l.migration = $1 AND l.role = $2)`
	if err = q.QueryRow(ctx, sql, migration, Applier).Scan(&rate); err != nil {
		return nil, fmt.Errorf("read the rate of catch-up: %w", err)
	}
	return rate, nil
}

// LeaseRunning reports whether somebody holds a role's lease now.
func LeaseRunning(ctx context.Context, q postgres.Querier, migration string, role Role) (bool, error) {
	var running bool
	const sql = `SELECT EXISTS (SELECT FROM shardctl.lease l JOIN pg_stat_activity a ON a.pid = l.backend_pid AND a.backend_start = l.backend_start WHERE l.migration = $1 AND l.role = $2)`
	if err := q.QueryRow(ctx, sql, migration, role).Scan(&running); err != nil {
		return false, fmt.Errorf("look for the %s lease: %w", role, err)
	}
	return running, nil
}

// Lag is the age of an applied snapshot: since the marker that made it durable.
func (p Position) Lag(now time.Time) time.Duration { return max(now.Sub(p.AppliedAt), 0) }
