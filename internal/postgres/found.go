package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ExecFound runs the statements that a query gives, one by one; an error names the one
// that failed. Doing words the query.
func ExecFound(ctx context.Context, q Querier, doing, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for _, sql := range statements {
		if _, err := q.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
