package store

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
)

// SkipTerms moves the source's terms past one that a database has seen: after the
// source went back in time it would draw terms again that are in use.
func SkipTerms(ctx context.Context, source postgres.Querier, past int64) error {
	const sql = `SELECT setval('shardctl.term_seq', greatest(last_value, $1)) FROM shardctl.term_seq`
	if _, err := source.Exec(ctx, sql, past); err != nil {
		return fmt.Errorf("move the terms past %d: %w", past, err)
	}
	return nil
}
