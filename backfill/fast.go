package backfill

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// errNotFast says that a database may not be copied in fast mode, and why.
type errNotFast struct{ why string }

func (e errNotFast) Error() string { return "fast mode is not possible: " + e.why }

// enterFast makes a database's ticks wait and drops its primary keys, in one
// transaction. It does nothing where that is done already. The count of
// control.plan goes up: a chunk read before is thrown away, so that every row
// copied was read later than the position that is held.
func enterFast(ctx context.Context, conn *pgx.Conn, l *layout.Layout, database string) (store.Control, error) {
	var c store.Control
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) (err error) {
		if c, err = store.ChangeControl(ctx, tx, l.Spec.Migration); err != nil || c.Held {
			return err
		}
		s, err := situation(ctx, tx, l, database, c)
		if err != nil {
			return err
		}
		if why := s.notFast(); why != "" {
			return errNotFast{why}
		}
		c.Held, c.Plan = true, c.Plan+1
		if err := store.SaveControl(ctx, tx, l.Spec.Migration, c); err != nil {
			return err
		}
		for _, t := range l.Tables {
			if err := dropKeys(ctx, tx, l, t, database); err != nil {
				return fmt.Errorf("drop the keys of %s: %w", t.Name(), err)
			}
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("enter fast mode on %s: %w", database, err)
	}
	return c, nil
}

// situation reads what the choice of a mode depends on.
func situation(ctx context.Context, q postgres.Querier, l *layout.Layout, database string, c store.Control) (Situation, error) {
	s := Situation{Database: database, Owns: c.Owner != store.OwnerSource, LogSoftLimit: l.Spec.Capture.LogSoftLimit}
	const ledger = `SELECT EXISTS (SELECT FROM shardctl.ledger WHERE migration = $1)`
	if err := q.QueryRow(ctx, ledger, l.Spec.Migration).Scan(&s.HasLedger); err != nil {
		return s, fmt.Errorf("read the ledger of %s: %w", database, err)
	}
	if err := q.QueryRow(ctx, anyRow(l.AllTargets(database))).Scan(&s.HasRows); err != nil {
		return s, fmt.Errorf("look for rows on %s: %w", database, err)
	}
	// A primary key that a foreign key needs cannot be dropped, and a unique index may
	// refuse rows of different snapshots, which ticks that wait would never set right.
	const indexed = `SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = ANY ($1::text[]::regclass[]) AND indisunique AND NOT indisprimary)
	OR EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid = ANY ($1::text[]::regclass[]))`
	if err := q.QueryRow(ctx, indexed, l.AllTargets(database)).Scan(&s.Indexed); err != nil {
		return s, fmt.Errorf("look for indexes on %s: %w", database, err)
	}
	return s, nil
}

// dropKeys notes and drops the primary keys of a table's locations.
func dropKeys(ctx context.Context, tx pgx.Tx, l *layout.Layout, t *layout.Table, database string) error {
	const note = `INSERT INTO shardctl.dropped_key (migration, table_no, relation, name, definition)
	SELECT $1, $2, r, conname, pg_get_constraintdef(oid) FROM unnest($3::text[]) r JOIN pg_constraint ON conrelid = r::regclass AND contype = 'p'
	RETURNING format('ALTER TABLE %s DROP CONSTRAINT %I', relation, name)`
	rows, err := tx.Query(ctx, note, l.Spec.Migration, t.No, l.Targets(t, database))
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for _, s := range statements {
		batch.Queue(s)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// leaveFast builds a database's keys, one transaction a table, and lets its ticks
// go on. Any number of processes may call it at once, also while chunks are
// still being copied: those go on in live mode.
func leaveFast(ctx context.Context, conn *pgx.Conn, l *layout.Layout, database string) error {
	c, err := store.LoadControl(ctx, conn, l.Spec.Migration)
	if err != nil || !c.Held {
		return err
	}
	if _, err := conn.Exec(ctx, buildSettings); err != nil {
		return fmt.Errorf("prepare to build keys: %w", err)
	}
	for _, t := range l.Tables {
		err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return buildKeys(ctx, tx, l, t) })
		if err != nil {
			return fmt.Errorf("build the keys of %s on %s: %w", t.Name(), database, err)
		}
	}
	return release(ctx, conn, l.Spec.Migration, database)
}

// buildSettings give a build of indexes memory. A quarter of a gigabyte sorts
// tens of millions of keys in one go.
const buildSettings = `SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes(current_setting('maintenance_work_mem')), 256 * 1024 * 1024) / 1024 || 'kB', false)`

// release ends the wait of ticks, in a transaction of its own: a database with
// all keys and held ticks is only slow, never wrong.
func release(ctx context.Context, conn *pgx.Conn, migration, database string) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		c, err := store.ChangeControl(ctx, tx, migration)
		if err != nil || !c.Held {
			return err
		}
		var left int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM shardctl.dropped_key WHERE migration = $1", migration).Scan(&left); err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d primary keys are not built", left)
		}
		c.Held = false
		return store.SaveControl(ctx, tx, migration, c)
	})
	if err != nil {
		return fmt.Errorf("let the ticks of %s go on: %w", database, err)
	}
	return nil
}

type droppedKey struct{ relation, name, definition string }

// buildKeys builds what lacks of a table's primary keys. The control row is
// shared, so that nobody changes the mode meanwhile; the table's lock keeps
// another process from doing the same.
func buildKeys(ctx context.Context, tx pgx.Tx, l *layout.Layout, t *layout.Table) error {
	c, err := store.ShareControl(ctx, tx, l.Spec.Migration)
	if err != nil || !c.Held {
		return err
	}
	if err := store.LockTableExclusive(ctx, tx, l.Spec.Migration, t.No); err != nil {
		return err
	}
	const sql = `DELETE FROM shardctl.dropped_key WHERE migration = $1 AND table_no = $2 RETURNING relation, name, definition`
	rows, err := tx.Query(ctx, sql, l.Spec.Migration, t.No)
	if err != nil {
		return err
	}
	dropped, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (k droppedKey, err error) {
		err = r.Scan(&k.relation, &k.name, &k.definition)
		return k, err
	})
	if err != nil {
		return err
	}
	for _, k := range dropped {
		if err := buildKey(ctx, tx, t, k); err != nil {
			return fmt.Errorf("%s: %w", k.relation, err)
		}
	}
	return nil
}

// buildKey builds one key. Of rows with an equal key, which come from a row that
// moved between two chunks or a chunk that was copied twice, any may stay: they
// changed after the held position, so the next tick reads them again.
func buildKey(ctx context.Context, tx pgx.Tx, t *layout.Table, k droppedKey) error {
	add := fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s %s", k.relation, postgres.Ident(k.name), k.definition)
	sp, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = sp.Exec(ctx, add)
	if err == nil {
		return sp.Commit(ctx)
	}
	if postgres.SQLState(err) != "23505" {
		return errors.Join(err, sp.Rollback(ctx))
	}
	if err := sp.Rollback(ctx); err != nil {
		return err
	}
	// Nothing may be added between this and the key.
	if _, err := tx.Exec(ctx, "LOCK TABLE "+k.relation+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, doubled(t, k.relation)); err != nil {
		return fmt.Errorf("delete doubled rows: %w", err)
	}
	_, err = tx.Exec(ctx, add)
	return err
}
