package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// NextTerm draws a term from the source: higher than any before, for all roles.
func NextTerm(ctx context.Context, source postgres.Querier) (int64, error) {
	var term int64
	if err := source.QueryRow(ctx, "SELECT nextval('shardctl.term_seq')").Scan(&term); err != nil {
		return 0, fmt.Errorf("draw a term: %w", err)
	}
	return term, nil
}

// RaiseTerms writes a term into every ownership row of the source and into the
// control row of every given database, each in a committed transaction of its own.
// Afterwards no process with an older term can commit anything there. A row that
// has a higher term stays, and the error is ErrTerm: we are the stale one.
func RaiseTerms(ctx context.Context, source *pgx.Conn, databases map[string]*pgx.Conn, migration string, term int64) error {
	owners, err := LoadOwnership(ctx, source, migration)
	if err != nil {
		return err
	}
	for _, o := range owners {
		if err := RaiseOwnershipTerm(ctx, source, migration, o.Database, term); err != nil {
			return err
		}
	}
	var errs []error
	for name, conn := range databases {
		if err := RaiseControlTerm(ctx, conn, migration, term); err != nil {
			errs = append(errs, fmt.Errorf("database %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// RaiseOwnershipTerm raises one row of the source.
func RaiseOwnershipTerm(ctx context.Context, source postgres.Beginner, migration, database string, term int64) error {
	return postgres.WithTx(ctx, source, pgx.TxOptions{}, func(tx pgx.Tx) error {
		o, err := ChangeOwnership(ctx, tx, migration, database)
		if err != nil {
			return err
		}
		if o.Term > term {
			return fmt.Errorf("ownership of %s by %s: %w", migration, database, ErrTerm)
		}
		o.Term = term
		return SaveOwnership(ctx, tx, migration, o)
	})
}

// RaiseControlTerm raises a database's control row.
func RaiseControlTerm(ctx context.Context, database postgres.Beginner, migration string, term int64) error {
	return postgres.WithTx(ctx, database, pgx.TxOptions{}, func(tx pgx.Tx) error {
		c, err := ChangeControl(ctx, tx, migration)
		if err != nil {
			return err
		}
		if c.Term > term {
			return fmt.Errorf("control row of %s: %w", migration, ErrTerm)
		}
		c.Term = term
		return SaveControl(ctx, tx, migration, c)
	})
}
