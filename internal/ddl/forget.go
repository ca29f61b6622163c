package ddl

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// ForgetTriggers notes as removed the registered triggers of a place whose relation is
// there no more, as after a partition was dropped: they went with it.
func ForgetTriggers(ctx context.Context, source, place postgres.Querier, migration, name string) error {
	objects, err := store.Registered(ctx, source, migration, name)
	if err != nil {
		return err
	}
	var ids []int64
	var relations []string
	for _, o := range objects {
		if relation := relationOf(o); relation != "" {
			ids, relations = append(ids, o.ID), append(relations, relation)
		}
	}
	const sql = `SELECT r.id FROM unnest($1::bigint[], $2::text[]) r(id, relation) WHERE pg_catalog.to_regclass(r.relation) IS NULL`
	rows, err := place.Query(ctx, sql, ids, relations)
	if err != nil {
		return fmt.Errorf("look for the relations of triggers on %s: %w", name, err)
	}
	gone, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(gone) == 0 {
		return err
	}
	return store.MarkRemoved(ctx, source, gone...)
}
