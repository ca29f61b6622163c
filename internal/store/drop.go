package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// DropSource forgets a migration on the source, and drops schema shardctl with it
// if no other migration is left. It drops nothing that a table outside the schema
// depends on: what is left over makes it fail.
func DropSource(ctx context.Context, source *pgx.Conn, migration string) error {
	return drop(ctx, source, "migration", func(tx pgx.Tx) error { return DeleteMigration(ctx, tx, migration) })
}

// DropDatabase does the same on a database. One that has no state is a success.
func DropDatabase(ctx context.Context, database *pgx.Conn, migration string) error {
	var there bool
	if err := database.QueryRow(ctx, "SELECT to_regclass('shardctl.control') IS NOT NULL").Scan(&there); err != nil {
		return fmt.Errorf("look for schema shardctl: %w", err)
	}
	if !there {
		return nil
	}
	return drop(ctx, database, "control", func(tx pgx.Tx) error { return DeleteControl(ctx, tx, migration) })
}

func drop(ctx context.Context, conn *pgx.Conn, root string, forget func(pgx.Tx) error) error {
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := forget(tx); err != nil {
			return err
		}
		var more bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM shardctl."+root+")").Scan(&more); err != nil || more {
			return err
		}
		if _, err := tx.Exec(ctx, dropSQL); err != nil {
			return fmt.Errorf("drop schema shardctl: %w", err)
		}
		return nil
	})
}

// dropSQL drops our own tables and sequences, one after the other, and then the
// schema without CASCADE: an object that we did not make keeps it.
const dropSQL = `DO $$
DECLARE o record;
BEGIN
  FOR o IN SELECT oid::regclass AS name, relkind FROM pg_class WHERE relnamespace = 'shardctl'::regnamespace AND relkind IN ('r', 'S')
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_class.oid AND d.deptype IN ('a', 'i') AND relkind = 'S') ORDER BY relkind DESC, oid DESC LOOP
    IF o.relkind = 'r' THEN EXECUTE format('DROP TABLE %s', o.name); ELSE EXECUTE format('DROP SEQUENCE %s', o.name); END IF;
  END LOOP;
  DROP SCHEMA shardctl;
END $$`
