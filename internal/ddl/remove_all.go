package ddl

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// RemoveAll undoes all that the registry has for a migration at a place: abort.
// The rows of the state's own tables are the store's to delete.
func RemoveAll(ctx context.Context, source postgres.Querier, place *pgx.Conn, migration, name string) error {
	objects, err := store.Registered(ctx, source, migration, name)
	if err != nil {
		return err
	}
	return Remove(ctx, source, place, objects)
}
