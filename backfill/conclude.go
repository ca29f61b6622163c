package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// conclude builds keys, makes the copy durable, finishes the databases, and
// moves the phase if nothing lacks anywhere.
func (r *run) conclude(ctx context.Context) error {
	if err := r.buildAll(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.cfg.Workers)
	for _, name := range r.cfg.Only {
		group.Go(func() error { return r.concludeOne(groupCtx, name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.outages.persist(ctx, source, func() error { return r.setBackfilled(ctx) })
}

func (r *run) concludeOne(ctx context.Context, name string) error {
	err := r.outages.persist(ctx, name, func() error {
		if err := r.flush(ctx, name); err != nil {
			return err
		}
		return r.finish(ctx, name)
	})
	if err != nil {
		return err
	}
	return r.outages.persist(ctx, source, func() error { return r.markFinished(ctx, name) })
}

// flush waits until a database has all chunks on disk, and on its synchronous
// standbys: chunks are committed without.
func (r *run) flush(ctx context.Context, name string) error {
	return r.databases[name].with(ctx, func(conn *pgx.Conn) error {
		err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_current_xact_id()") // an xid, so that the commit is written
			return err
		})
		if err != nil {
			return fmt.Errorf("make the copy on %s durable: %w", name, err)
		}
		return nil
	})
}

// setBackfilled moves the phase once every database has every chunk and what
// follows the copy; other databases may be another run's.
func (r *run) setBackfilled(ctx context.Context) error {
	for _, db := range r.cfg.Databases {
		there, err := r.complete(ctx, db.Name)
		if err != nil && !slices.Contains(r.cfg.Only, db.Name) {
			return nil // out of reach, and not ours to finish
		}
		if err != nil || !there {
			return err
		}
	}
	return r.watch.with(ctx, func(conn *pgx.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			err := store.SetPhase(ctx, tx, r.cfg.migration(), migrate.Backfilled)
			if errors.Is(err, store.ErrPhase) {
				return nil // it is further already: a database was copied anew
			}
			return err
		})
	})
}

func (r *run) complete(ctx context.Context, database string) (there bool, err error) {
	err = r.databases[database].with(ctx, func(conn *pgx.Conn) error {
		return r.watch.with(ctx, func(source *pgx.Conn) error {
			lacks, err := Lacking(ctx, source, conn, r.cfg.migration(), database)
			there = lacks == ""
			return err
		})
	})
	if err != nil {
		return false, fmt.Errorf("database %s: %w", database, err)
	}
	return there, nil
}

func (r *run) markFinished(ctx context.Context, database string) error {
	return r.watch.with(ctx, func(conn *pgx.Conn) error {
		const sql = `UPDATE shardctl.backfill_mode SET finished_at = clock_timestamp() WHERE migration = $1 AND database = $2`
		_, err := conn.Exec(ctx, sql, r.cfg.migration(), database)
		return err
	})
}

func (r *run) result(ctx context.Context) (res Result, err error) {
	err = r.watch.with(ctx, func(conn *pgx.Conn) error {
		const sql = `SELECT m.phase, coalesce(sum(c.rows), 0)::bigint, coalesce(sum(c.skipped), 0)::bigint
		FROM shardctl.migration m LEFT JOIN shardctl.chunk c ON c.migration = m.name WHERE m.name = $1 GROUP BY m.phase`
		return conn.QueryRow(ctx, sql, r.cfg.migration()).Scan(&res.Phase, &res.Rows, &res.Skipped)
	})
	if err != nil {
		return res, fmt.Errorf("read the result: %w", err)
	}
	return res, nil
}
