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
