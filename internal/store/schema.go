package store

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

//go:embed shared.sql
var sharedSQL string

//go:embed source.sql
var sourceSQL string

//go:embed database.sql
var databaseSQL string

// CreateSource makes what lacks of schema shardctl on the source. Idempotent.
func CreateSource(ctx context.Context, q postgres.Querier) error {
	if _, err := q.Exec(ctx, sharedSQL+sourceSQL); err != nil {
		return fmt.Errorf("create schema shardctl on the source: %w", err)
	}
	return nil
}

// CreateDatabase makes what lacks of schema shardctl on a database. Idempotent.
func CreateDatabase(ctx context.Context, q postgres.Querier) error {
	if _, err := q.Exec(ctx, sharedSQL+databaseSQL); err != nil {
		return fmt.Errorf("create schema shardctl: %w", err)
	}
	return nil
}

// Exists reports whether schema shardctl with the migration table (source) is there.
func Exists(ctx context.Context, q postgres.Querier) (bool, error) {
	var there bool
	err := q.QueryRow(ctx, "SELECT to_regclass('shardctl.migration') IS NOT NULL").Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for schema shardctl: %w", err)
	}
	return there, nil
}
