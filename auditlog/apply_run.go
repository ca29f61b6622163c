package auditlog

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// runAll sends statements in one message: a schema per shard must not cost a
// round trip each. It gives the rows that each affected.
func runAll(ctx context.Context, tx pgx.Tx, statements []string) ([]int64, error) {
	if len(statements) == 0 {
		return nil, nil
	}
	results := tx.Conn().PgConn().Exec(ctx, strings.Join(statements, ";\n"))
	var rows []int64
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // results.Close tells it again
		}
		rows = append(rows, tag.RowsAffected())
	}
	return rows, results.Close()
}

// own reports whether an error is about the row itself, so that other rows may
// pass: a value, a constraint, a check, a row too large, an exception that a
// function raised.
func own(err error) bool {
	code := postgres.SQLState(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "22", "23", "44", "54", "P0":
		return true
	}
	return false
}

// clashes reports whether a row met another in a unique or exclusion constraint.
func clashes(err error) bool {
	code := postgres.SQLState(err)
	return code == "23505" || code == "23P01"
}
