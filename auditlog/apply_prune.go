package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

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
