package verify

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Invalidate makes every pass so far stale: something may have been written that no
// log has. The next full pass begins anew.
func Invalidate(ctx context.Context, source postgres.Querier, migration string) error {
	there, err := hasState(ctx, source)
	if err != nil || !there {
		return err
	}
	if _, err := source.Exec(ctx, "DELETE FROM shardctl.verify_round WHERE migration = $1", migration); err != nil {
		return fmt.Errorf("make verification stale: %w", err)
	}
	return nil
}

// InvalidateDatabase makes what passes say of one database stale, and forgets what they
// found there: its rows are about to be copied anew. Nobody may verify meanwhile.
func InvalidateDatabase(ctx context.Context, source postgres.Querier, migration, database string) error {
	there, err := hasState(ctx, source)
	if err != nil || !there {
		return err
	}
	for _, table := range []string{"verify_round", "verify_unsettled", "verify_difference"} {
		if _, err := source.Exec(ctx, "DELETE FROM shardctl."+table+" WHERE migration = $1 AND database = $2", migration, database); err != nil {
			return fmt.Errorf("make verification of %s stale: %w", database, err)
		}
	}
	return nil
}
