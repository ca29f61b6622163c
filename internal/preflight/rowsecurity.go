package preflight

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// rowSecurity: our sessions turn row_security off, so that a policy fails loudly
// instead of hiding rows. The role must be beyond the policies of every table.
func rowSecurity(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY($1) AND row_security_active(c.oid)`
	var tables []string
	err = postgres.WithTx(ctx, s.Source, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL row_security = on"); err != nil { // off, the question itself is an error
			return err
		}
		tables, err = texts(ctx, tx, sql, s.oids())
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		found = append(found, blocking("table.row_security", t, "row level security applies to the role: rows would be hidden from it",
			"ALTER ROLE "+postgres.Ident(s.Source.Config().User)+" BYPASSRLS;"))
	}
	return found, nil
}
