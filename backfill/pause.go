package backfill

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

// SetPaused keeps every process of a migration from starting a chunk, or lets
// them go on. By names who asked.
func SetPaused(ctx context.Context, source postgres.Querier, migration string, paused bool, by string) error {
	const sql = `INSERT INTO shardctl.backfill_control (migration, paused, by) VALUES ($1, $2, $3)
	ON CONFLICT (migration) DO UPDATE SET paused = excluded.paused, by = excluded.by, at = clock_timestamp()`
	if _, err := source.Exec(ctx, sql, migration, paused, by); err != nil {
		return fmt.Errorf("pause or resume the backfill of %s: %w", migration, err)
	}
	return nil
}
