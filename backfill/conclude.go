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

// conclude builds keys, makes the copy durable, finishes the named databases, and
// moves the phase if nothing lacks anywhere. It gives the databases of this run that
// have lost something meanwhile.
func (r *run) conclude(ctx context.Context, names []string) (lost []string, err error) {
	if err := r.buildAll(ctx); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.cfg.Workers)
	for _, name := range names {
		group.Go(func() error { return r.concludeOne(groupCtx, name) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if lost, err = r.lost(ctx); err != nil || len(lost) > 0 {
		return lost, err
	}
	return nil, r.outages.persist(ctx, source, func() error { return r.setBackfilled(ctx) })
}

// concludeOne finishes a database. One that has lost chunks it leaves for lost to find: an
// error would end what is being built on the others.
func (r *run) concludeOne(ctx context.Context, name string) error {
	err := r.outages.persist(ctx, name, func() error {
		if err := r.build(ctx, name); err != nil { // after a failover it may be held again
			return err
		}
		if err := r.flush(ctx, name); err != nil {
			return err
		}
		return r.finish(ctx, name)
	})
	var missing int
	lookErr := r.outages.persist(ctx, name, func() (err error) {
		missing, err = r.missing(ctx, name)
		return err
	})
	switch {
	case lookErr == nil && missing > 0:
		return nil // what Finish said of half a copy counts for nothing
	case err != nil:
		return err
	case lookErr != nil:
		return lookErr
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

// lost gives the databases of this run that lack something in the end.
func (r *run) lost(ctx context.Context) (names []string, err error) {
	for _, name := range r.cfg.Only {
		var lacks string
		err := r.outages.persist(ctx, name, func() (err error) {
			lacks, err = r.lacks(ctx, name)
			return err
		})
		if err != nil {
			return nil, err
		}
		if lacks != "" {
			names = append(names, name)
			r.events.emit(Event{Kind: EventLost, Database: name, Message: lacks})
		}
	}
	return names, nil
}

// setBackfilled moves the phase if nothing lacks on the other databases either, which
// may be another run's.
func (r *run) setBackfilled(ctx context.Context) error {
	for _, db := range r.cfg.Databases {
		if slices.Contains(r.cfg.Only, db.Name) {
			continue
		}
		if lacks, err := r.lacks(ctx, db.Name); err != nil || lacks != "" {
			return nil // also one that is out of reach is not ours to finish
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

// lacks says what a database's copy lacks; "" if it is whole.
func (r *run) lacks(ctx context.Context, database string) (what string, err error) {
	err = r.onBoth(ctx, database, func(source, conn *pgx.Conn) error {
		what, err = Lacking(ctx, source, conn, r.cfg.migration(), database)
		return err
	})
	return what, err
}

// missing counts the chunks that a database lacks.
func (r *run) missing(ctx context.Context, database string) (n int, err error) {
	err = r.onBoth(ctx, database, func(source, conn *pgx.Conn) error {
		n, err = Missing(ctx, source, conn, r.cfg.migration())
		return err
	})
	return n, err
}

func (r *run) onBoth(ctx context.Context, database string, look func(source, conn *pgx.Conn) error) error {
	err := r.databases[database].with(ctx, func(conn *pgx.Conn) error {
		return r.watch.with(ctx, func(source *pgx.Conn) error { return look(source, conn) })
	})
	if err != nil {
		return fmt.Errorf("database %s: %w", database, err)
	}
	return nil
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
