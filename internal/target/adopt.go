package target

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Adopt closes tables that somebody made anew after Prepare, with columns in another
// order for instance. One that is gone, or holds rows already, is refused.
func Adopt(ctx context.Context, conn *pgx.Conn, l *layout.Layout, database string) error {
	const sql = `SELECT t.name, to_regclass(t.name) IS NULL FROM unnest($1::text[]) t(name)
	WHERE NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = to_regclass(t.name) AND g.tgname = $2)`
	rows, err := conn.Query(ctx, sql, fence.DatabaseTables(l, database), logschema.ClosedTrigger(l.Spec.Migration))
	if err != nil {
		return fmt.Errorf("look at the tables of %s: %w", database, err)
	}
	var bare []string
	var failures migrate.Failures
	var name string
	var gone bool
	_, err = pgx.ForEachRow(rows, []any{&name, &gone}, func() error {
		if gone {
			failures = append(failures, migrate.Refuse("target.missing", database+": "+name, "the table is gone since prepare", "make it again, or run shardctl abort and begin anew"))
		} else {
			bare = append(bare, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at the tables of %s: %w", database, err)
	}
	var statements []ddl.Statement
	for _, name := range bare {
		var filled bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+name+")").Scan(&filled); err != nil {
			return fmt.Errorf("look at the tables of %s: %w", database, err)
		}
		if filled {
			failures = append(failures, migrate.Refuse("target.not_ours", database+": "+name, "it was made anew since prepare and holds rows that shardctl did not write", "empty it, then run the command again"))
		}
		statements = append(statements, fence.Closed(l, name))
	}
	if len(failures) > 0 {
		return failures
	}
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return ddl.Exec(ctx, tx, statements) })
}
