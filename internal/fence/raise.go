package fence

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Raise makes one trigger of ours fire always on tables (quoted) and all their
// partitions, in a transaction that holds SHARE ROW EXCLUSIVE on them. Where it is
// missing, nothing is raised.
func Raise(ctx context.Context, tx postgres.Querier, tables []string, name string) error {
	triggers, err := loadTriggers(ctx, tx, tables, []string{name})
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if t.enabled == "" {
			return migrate.Refuse("fence.incomplete", t.relation, "it lacks trigger "+name, "a person must look: the table is not the one that shardctl made")
		}
	}
	if _, err := tx.Exec(ctx, alter(triggers, "ENABLE ALWAYS")); err != nil {
		return fmt.Errorf("raise %s: %w", name, err)
	}
	return nil
}
