package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// SaveMember notes which real database stands behind a name, once: a name that
// leads elsewhere later is refused by CheckMember.
func SaveMember(ctx context.Context, source postgres.Querier, migration, database string, id postgres.Identity) error {
	const sql = `INSERT INTO shardctl.member (migration, database, system_identifier, dbname) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	if _, err := source.Exec(ctx, sql, migration, database, id.SystemIdentifier, id.Database); err != nil {
		return fmt.Errorf("note database %s: %w", database, err)
	}
	return nil
}

// Members gives what SaveMember noted: system identifier and database name, by
// the spec's name.
func Members(ctx context.Context, source postgres.Querier, migration string) (map[string]postgres.Identity, error) {
	rows, err := source.Query(ctx, "SELECT database, system_identifier, dbname FROM shardctl.member WHERE migration = $1", migration)
	if err != nil {
		return nil, fmt.Errorf("read the databases of %s: %w", migration, err)
	}
	out := map[string]postgres.Identity{}
	var name string
	var id postgres.Identity
	_, err = pgx.ForEachRow(rows, []any{&name, &id.SystemIdentifier, &id.Database}, func() error { out[name] = id; return nil })
	return out, err
}

// CheckMember refuses a database that is not the one its name stood for before.
func CheckMember(noted map[string]postgres.Identity, name string, now postgres.Identity) error {
	was, known := noted[name]
	if !known || was.SystemIdentifier == now.SystemIdentifier && was.Database == now.Database {
		return nil
	}
	return migrate.Refuse("database.other_server", name, "this is not the database that the migration was prepared on", "check its DSN in the spec")
}

// ClaimTable gives a table to a migration under its number. A table that another
// migration has is refused.
func ClaimTable(ctx context.Context, tx postgres.Querier, migration string, no int, name migrate.TableName) error {
	const sql = `INSERT INTO shardctl.captured (migration, table_no, schema_name, table_name) VALUES ($1, $2, $3, $4)
	ON CONFLICT (migration, table_no) DO UPDATE SET schema_name = excluded.schema_name, table_name = excluded.table_name`
	_, err := tx.Exec(ctx, sql, migration, no, name.Schema, name.Name)
	if postgres.SQLState(err) == "23505" {
		return migrate.Refuse("table.other_migration", name.String(), "another migration has this table", "complete or abort that migration first")
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", name, err)
	}
	return nil
}
