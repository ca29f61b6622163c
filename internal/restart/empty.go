package restart

import (
	"context"
	_ "embed" // the query
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// The wait for the control row, which chunks share, and for the locks on the tables.
// Nothing but our own processes should use them.
const (
	controlWait = "30s"
	tablesWait  = "10s"
)

// empty takes all that was copied from a database, in one transaction, in which its
// position moves to where the copy begins.
func (c Config) empty(ctx context.Context, name string, term int64, start store.Position) error {
	conn := c.Databases[name]
	replica, err := postgres.BecomeApplier(ctx, conn, c.migration()) // fences and capture let it pass
	if err != nil {
		return err
	}
	return postgres.WithTx(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := c.enter(ctx, tx, name, term); err != nil {
			return err
		}
		tables := c.Layout.AllTargets(name)
		if err := truncate(ctx, tx, append(tables, tombstones(c.Layout)...)); err != nil {
			return err
		}
		if !replica {
			if err := dropForeignKeys(ctx, tx, tables); err != nil {
				return err
			}
		}
		if err := c.clear(ctx, tx, name, start.Tick); err != nil {
			return err
		}
		return store.SavePosition(ctx, tx, c.migration(), name, store.Forward, start)
	})
}

// enter locks the control row, judges it again, and begins a new copy: chunks that were
// read for the one before are thrown away, and so is the work of older terms.
func (c Config) enter(ctx context.Context, tx pgx.Tx, name string, term int64) error {
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+controlWait+"'"); err != nil {
		return err
	}
	control, err := store.ChangeControl(ctx, tx, c.migration())
	if err != nil {
		return err
	}
	switch {
	case control.Owner != store.OwnerSource:
		return ownedFailure(name)
	case control.Term > term:
		return fmt.Errorf("control row of %s on %s: %w", c.migration(), name, store.ErrTerm)
	}
	control.Term, control.Plan = term, control.Plan+1
	if err := store.SaveControl(ctx, tx, c.migration(), control); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '"+tablesWait+"'")
	return err
}

// truncate empties tables in one statement, so that foreign keys among them do not matter.
func truncate(ctx context.Context, tx pgx.Tx, tables []string) error {
	_, err := tx.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", "))
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "0A000":
		return migrate.Refuse("restart.foreign_key", pg.TableName, "its tables cannot be emptied: "+strings.TrimSuffix(pg.Message+": "+pg.Detail, ": "),
			"drop that foreign key, which is none of shardctl's, then run the command again")
	case postgres.SQLState(err) == "55P03":
		return migrate.Refuse("restart.locked", "", "its tables are in use: no lock within "+tablesWait, "end the sessions that read or write them (pg_locks), then run the command again")
	case err != nil:
		return fmt.Errorf("empty the tables: %w", err)
	}
	return nil
}

//go:embed foreign_keys.sql
var foreignKeysSQL string

// dropForeignKeys drops those among the tables that are in the form of a database that is
// written without replica role. Chunks come in no order of parents and children; what
// follows the copy makes them again.
func dropForeignKeys(ctx context.Context, tx pgx.Tx, tables []string) error {
	return postgres.ExecFound(ctx, tx, "look for foreign keys", foreignKeysSQL, tables)
}

// clear forgets what was known of the copy before. Tombstones count as pruned up to the
// tick of the start: a chunk that cannot have seen it is read again.
func (c Config) clear(ctx context.Context, tx pgx.Tx, name string, tick int64) error {
	var batch pgx.Batch
	for _, table := range []string{"ledger", "table_tombstone"} {
		batch.Queue("DELETE FROM shardctl."+table+" WHERE migration = $1", c.migration())
	}
	batch.Queue("DELETE FROM shardctl.quarantine WHERE migration = $1 AND database = $2 AND direction = $3", c.migration(), name, store.Forward)
	const pruned = `INSERT INTO shardctl.pruned (migration, table_no, through) SELECT $1, generate_series(1, $2::int), $3
	ON CONFLICT (migration, table_no) DO UPDATE SET through = excluded.through`
	batch.Queue(pruned, c.migration(), len(c.Layout.Tables), tick)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("forget the copy before: %w", err)
	}
	return nil
}

func tombstones(l *layout.Layout) (out []string) {
	for _, t := range l.Tables {
		out = append(out, postgres.Table(logschema.Schema, logschema.Tombstones(l.Spec.Migration, t.No)))
	}
	return out
}
