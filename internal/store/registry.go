package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// PlaceSource is the registry's place of objects on the source; other places
// are databases' names.
const PlaceSource = "source"

// Object is something of ours in a database. It is registered before it is
// created, so that what exists is always known; undo therefore tolerates absence.
type Object struct {
	ID        int64
	Migration string
	Place     string // PlaceSource or a database's name
	Kind      string // "table", "trigger", "function", "schema", …
	Name      string // quoted and qualified, unique within kind and place
	Undo      string // SQL that removes it, and succeeds where it is absent
}

// Register notes objects in one statement, before they are created. Idempotent.
func Register(ctx context.Context, source postgres.Querier, objects ...Object) error {
	if len(objects) == 0 {
		return nil
	}
	cols := make([][]string, 5)
	for _, o := range objects {
		for i, v := range []string{o.Migration, o.Place, o.Kind, o.Name, o.Undo} {
			cols[i] = append(cols[i], v)
		}
	}
	const sql = `INSERT INTO shardctl.registry (migration, place, kind, name, undo) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
	ON CONFLICT (migration, place, kind, name) WHERE removed_at IS NULL DO UPDATE SET undo = excluded.undo`
	if _, err := source.Exec(ctx, sql, cols[0], cols[1], cols[2], cols[3], cols[4]); err != nil {
		return fmt.Errorf("register %s %s: %w", objects[0].Kind, objects[0].Name, err)
	}
	return nil
}

// Registered lists a place's objects that are not removed, newest first: the
// order in which they can be undone.
func Registered(ctx context.Context, source postgres.Querier, migration, place string) ([]Object, error) {
	const sql = `SELECT id, migration, place, kind, name, undo FROM shardctl.registry WHERE migration = $1 AND place = $2 AND removed_at IS NULL ORDER BY id DESC`
	rows, err := source.Query(ctx, sql, migration, place)
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (o Object, err error) {
		err = r.Scan(&o.ID, &o.Migration, &o.Place, &o.Kind, &o.Name, &o.Undo)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	return out, nil
}

// MarkRemoved notes that objects are gone.
func MarkRemoved(ctx context.Context, source postgres.Querier, ids ...int64) error {
	if _, err := source.Exec(ctx, "UPDATE shardctl.registry SET removed_at = clock_timestamp() WHERE id = ANY($1)", ids); err != nil {
		return fmt.Errorf("write registry: %w", err)
	}
	return nil
}
