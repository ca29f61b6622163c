package ddl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Create registers the objects of statements on the source, then runs them on a
// place as one transaction, in one round trip. The source's session must not be
// inside a transaction: the registration has to be durable first.
func Create(ctx context.Context, source postgres.Querier, place postgres.Beginner, statements []Statement) error {
	if err := store.Register(ctx, source, Objects(statements)...); err != nil {
		return err
	}
	return Run(ctx, place, statements)
}

// Run runs statements whose objects are registered, as one transaction.
func Run(ctx context.Context, place postgres.Beginner, statements []Statement) error {
	if len(statements) == 0 {
		return nil
	}
	err := postgres.WithTx(ctx, place, pgx.TxOptions{}, func(tx pgx.Tx) error { return Exec(ctx, tx, statements) })
	if postgres.SQLState(err) == "" || len(statements) == 1 {
		return err
	}
	return errors.Join(locate(ctx, place, statements), err)
}

// Exec runs statements inside the caller's transaction, in one round trip.
func Exec(ctx context.Context, tx postgres.Querier, statements []Statement) error {
	if len(statements) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, Script(statements)); err != nil {
		if len(statements) == 1 {
			return fmt.Errorf("%s: %w", firstLine(statements[0].SQL), err)
		}
		return err
	}
	return nil
}

// errTried ends the transaction in which locate tries statements.
var errTried = errors.New("tried")

// locate finds the statement that a batch failed at: the server's error does not
// say which. It runs them one by one and rolls back.
func locate(ctx context.Context, place postgres.Beginner, statements []Statement) error {
	err := postgres.WithTx(ctx, place, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, s := range statements {
			if err := Exec(ctx, tx, []Statement{s}); err != nil {
				return err
			}
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil // it would pass now
	}
	return err
}

func firstLine(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	return line
}
