package store

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// SourceBehind is the clear stop where a database knows a later epoch than the source: who
// owns what is not what the source says, and nothing is applied or opened by its word.
func SourceBehind(known, source int64) *migrate.Failure {
	return &migrate.Failure{Code: "epoch.source_behind", Object: "source", Exit: migrate.ExitAmbiguous,
		Message: fmt.Sprintf("a database knows epoch %d, the source only %d: the source went back in time", known, source),
		Hint:    "do not open the source for writes: shardctl doctor --repair raises its fences; find out what it lost, then decide"}
}

// SkipTerms moves the source's terms past one that a database has seen: after the
// source went back in time it would draw terms again that are in use.
func SkipTerms(ctx context.Context, source postgres.Querier, past int64) error {
	const sql = `SELECT setval('shardctl.term_seq', greatest(last_value, $1)) FROM shardctl.term_seq`
	if _, err := source.Exec(ctx, sql, past); err != nil {
		return fmt.Errorf("move the terms past %d: %w", past, err)
	}
	return nil
}
