package ddl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// removeBatch is how many objects go in one transaction: few round trips, and
// far from filling the server's lock table.
const removeBatch = 50

// dropWait bounds the wait for a lock on an object of ours that is in use.
const dropWait = 5 * time.Second

// Remove undoes objects of one place, newest first, and notes each as removed on
// the source. Triggers on tables that stay are disabled first and dropped later,
// with locks that give way. What others depend on is tried again after the rest;
// what is left in the end is a *migrate.Failure that names it. Source is nil where the
// registry is lost with it: nothing is noted then.
func Remove(ctx context.Context, source postgres.Querier, place *pgx.Conn, objects []store.Object) error {
	triggers, rest := split(objects)
	if err := removeTriggers(ctx, source, place, triggers); err != nil {
		return err
	}
	slices.SortStableFunc(rest, func(a, b store.Object) int {
		return cmp.Or(rank(a.Kind)-rank(b.Kind), cmp.Compare(b.ID, a.ID))
	})
	for {
		left, err := removeAll(ctx, source, place, rest)
		if len(left) == 0 {
			return err
		}
		if len(left) == len(rest) {
			untied, untieErr := untie(ctx, place, left)
			if untied == 0 || untieErr != nil {
				return errors.Join(err, untieErr)
			}
		}
		rest = left
	}
}

// untie drops the foreign keys among tables of ours that refer to one another in a
// circle: none of them could be dropped first.
func untie(ctx context.Context, place *pgx.Conn, objects []store.Object) (dropped int, err error) {
	var tables []string
	for _, o := range objects {
		if o.Kind == "table" {
			tables = append(tables, o.Name)
		}
	}
	const sql = `WITH ours AS (SELECT to_regclass(t) AS oid FROM unnest($1::text[]) t)
	SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint
	WHERE contype = 'f' AND conparentid = 0 AND conrelid <> confrelid AND conrelid IN (SELECT oid FROM ours) AND confrelid IN (SELECT oid FROM ours)`
	rows, err := place.Query(ctx, sql, tables)
	if err != nil {
		return 0, fmt.Errorf("look for foreign keys: %w", err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("look for foreign keys: %w", err)
	}
	for batch := range slices.Chunk(statements, removeBatch) {
		err := postgres.WithTx(ctx, place, pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d;\n%s", dropWait.Milliseconds(), strings.Join(batch, ";\n")))
			return err
		})
		if err != nil {
			return dropped, fmt.Errorf("drop foreign keys: %w", err)
		}
		dropped += len(batch)
	}
	return dropped, nil
}

// split tells the triggers on tables that stay from all else. Those on tables that
// are removed as well, or on their partitions, go with them: where user tables of
// our making are removed, all triggers are on such.
func split(objects []store.Object) (triggers, rest []store.Object) {
	own := slices.ContainsFunc(objects, func(o store.Object) bool {
		return o.Kind == "table" && o.Place != store.PlaceSource && !strings.HasPrefix(o.Name, postgres.Ident(logschema.Schema)+".")
	})
	for _, o := range objects {
		if o.Kind == "trigger" && !own {
			triggers = append(triggers, o)
		} else {
			rest = append(rest, o)
		}
	}
	return triggers, rest
}

// relationOf is the quoted relation of a trigger's object; "" for other objects.
// The trigger's own name is ours and holds no quote.
func relationOf(o store.Object) string {
	if o.Kind != "trigger" {
		return ""
	}
	_, relation, _ := strings.Cut(o.Name, " ON ")
	return relation
}

// rank orders kinds so that few removals meet something that still depends.
func rank(kind string) int {
	order := []string{"table", "trigger", "sequence", "function", "type", "collation", "schema"}
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}

// removeAll tries all objects once and gives those that are left, with the reason.
func removeAll(ctx context.Context, source postgres.Querier, place *pgx.Conn, objects []store.Object) (left []store.Object, err error) {
	for batch := range slices.Chunk(objects, removeBatch) {
		batchErr := undo(ctx, source, place, batch)
		if batchErr == nil {
			continue
		}
		if postgres.SQLState(batchErr) == "" {
			return objects, batchErr
		}
		for _, o := range batch {
			if oneErr := undo(ctx, source, place, []store.Object{o}); oneErr != nil {
				left, err = append(left, o), errors.Join(err, refuse(o, oneErr))
			}
		}
	}
	return left, err
}

func undo(ctx context.Context, source postgres.Querier, place *pgx.Conn, objects []store.Object) error {
	parts := make([]string, len(objects))
	ids := make([]int64, len(objects))
	for i, o := range objects {
		parts[i], ids[i] = o.Undo, o.ID
	}
	err := postgres.WithTx(ctx, place, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d;\n%s", dropWait.Milliseconds(), strings.Join(parts, ";\n")))
		return err
	})
	if err != nil {
		return err
	}
	return markRemoved(ctx, source, ids)
}

func markRemoved(ctx context.Context, source postgres.Querier, ids []int64) error {
	if source == nil {
		return nil
	}
	return store.MarkRemoved(ctx, source, ids...)
}

// refuse words why an object of ours stays.
func refuse(o store.Object, err error) error {
	object := o.Place + ": " + o.Kind + " " + o.Name
	switch postgres.SQLState(err) {
	case "2BP01":
		return &migrate.Failure{Code: "remove.in_use", Object: object, Message: "objects that are not ours depend on it" + dependents(err), Exit: migrate.ExitRefused, Err: err,
			Hint: "drop or move them, then run the command again"}
	case "55P03":
		return &migrate.Failure{Code: "lock.held", Object: object, Message: "it is in use", Exit: migrate.ExitRefused, Err: err,
			Hint: "wait for those sessions or end them, then run the command again"}
	}
	return fmt.Errorf("remove %s: %w", object, err)
}

// dependents are the objects that an error of a DROP names.
func dependents(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Detail == "" {
		return ""
	}
	return " (" + strings.ReplaceAll(pg.Detail, "\n", "; ") + ")"
}
