package backfill

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Pause keeps every process of a migration from starting a chunk, until Resume.
// By names who asked.
func Pause(ctx context.Context, source postgres.Querier, migration, by string) error {
	return setPaused(ctx, source, migration, by, true)
}

// Resume ends a Pause.
func Resume(ctx context.Context, source postgres.Querier, migration, by string) error {
	return setPaused(ctx, source, migration, by, false)
}

func setPaused(ctx context.Context, source postgres.Querier, migration, by string, paused bool) error {
	const sql = `INSERT INTO shardctl.backfill_control (migration, paused, by) VALUES ($1, $2, $3)
	ON CONFLICT (migration) DO UPDATE SET paused = excluded.paused, by = excluded.by, at = clock_timestamp()`
	if _, err := source.Exec(ctx, sql, migration, paused, by); err != nil {
		return fmt.Errorf("pause or resume the backfill of %s: %w", migration, err)
	}
	return nil
}
