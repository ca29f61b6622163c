package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Gap says that a log lost entries which a database has not seen. It is recorded
// beside the log, and never bridged by a tick.
type Gap struct {
	Database  string
	Direction store.Direction
	Reason    string
}

// MarkGap records a gap on the side that owns the log; an earlier one stays.
func MarkGap(ctx context.Context, q postgres.Querier, migration string, g Gap) error {
	const sql = `INSERT INTO shardctl.gap (migration, database, direction, reason) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	if _, err := q.Exec(ctx, sql, migration, g.Database, g.Direction, g.Reason); err != nil {
		return fmt.Errorf("mark the %s gap of %s: %w", g.Direction, g.Database, err)
	}
	return nil
}

// LoadGaps reads the gaps of a side's log.
func LoadGaps(ctx context.Context, q postgres.Querier, migration string) ([]Gap, error) {
	rows, err := q.Query(ctx, "SELECT database, direction, reason FROM shardctl.gap WHERE migration = $1 ORDER BY database, direction", migration)
	if err != nil {
		return nil, fmt.Errorf("read gaps: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (g Gap, err error) {
		err = r.Scan(&g.Database, &g.Direction, &g.Reason)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("read gaps: %w", err)
	}
	return out, nil
}

// ClearGap forgets a gap, once the database's copy has started over.
func ClearGap(ctx context.Context, q postgres.Querier, migration, database string, d store.Direction) error {
	const sql = `DELETE FROM shardctl.gap WHERE migration = $1 AND database = $2 AND direction = $3`
	if _, err := q.Exec(ctx, sql, migration, database, d); err != nil {
		return fmt.Errorf("clear the %s gap of %s: %w", d, database, err)
	}
	return nil
}
