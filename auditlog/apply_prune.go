package auditlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// PruneTombstones removes the tombstones of a database that no chunk can need: those
// of ticks up to the oldest note of an unfinished chunk, and to a tick that every
// replica a backfill may read has long passed. Run does it by itself.
func (a *Applier) PruneTombstones(ctx context.Context, source, database *pgx.Conn, name string) error {
	age := time.Minute
	if a.cfg.Layout.Spec.Source.ReadDSN != "" {
		age = keepMarkers / 2
	}
	const sql = `SELECT least((SELECT coalesce(max(tick), 0) FROM shardctl.marker WHERE migration = $1 AND at < clock_timestamp() - $2::interval),
	(SELECT min(note) FROM shardctl.chunk WHERE migration = $1 AND state <> 'done'))`
	var through int64
	if err := source.QueryRow(ctx, sql, a.migration(), age).Scan(&through); err != nil {
		return fmt.Errorf("look for open chunks: %w", err)
	}
	if through == 0 {
		return nil
	}
	for _, t := range a.plan.tables {
		if err := a.pruneTable(ctx, database, t, through); err != nil {
			return fmt.Errorf("prune tombstones of %s on %s: %w", t.Name(), name, err)
		}
	}
	return nil
}

// pruneTable removes a table's tombstones up to a tick, in a transaction of its
// own. A chunk holds the row of shardctl.pruned while it compares with tombstones;
// then pruning is put off.
func (a *Applier) pruneTable(ctx context.Context, conn *pgx.Conn, t *tablePlan, through int64) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '100ms'"); err != nil {
			return err
		}
		c, err := store.ShareControl(ctx, tx, a.migration())
		if err != nil {
			return err
		}
		if c.Term != a.cfg.Term {
			return store.ErrTerm
		}
		// The backfill makes the rows too, but deletes may be old before there was one.
		const first = `INSERT INTO shardctl.pruned (migration, table_no) VALUES ($1, $2) ON CONFLICT DO NOTHING`
		if _, err := tx.Exec(ctx, first, a.migration(), t.No); err != nil {
			return err
		}
		var before int64
		const sql = `SELECT through FROM shardctl.pruned WHERE migration = $1 AND table_no = $2 FOR UPDATE NOWAIT`
		if err := tx.QueryRow(ctx, sql, a.migration(), t.No).Scan(&before); err != nil || before >= through {
			return err
		}
		// Chunks that hold the table have compared already, or will see what is pruned.
		if err := store.LockTableExclusive(ctx, tx, a.migration(), t.No); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE shardctl.pruned SET through = $3 WHERE migration = $1 AND table_no = $2", a.migration(), t.No, through); err != nil {
			return err
		}
		table := postgres.Table(logschema.Schema, logschema.Tombstones(a.migration(), t.No))
		if _, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE tick <= $1", table), through); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM shardctl.table_tombstone WHERE migration = $1 AND table_no = $2 AND tick <= $3", a.migration(), t.No, through)
		return err
	})
	if postgres.SQLState(err) == "55P03" {
		return nil
	}
	return err
}
