package auditlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/migrate"
)

// emptyWait bounds the wait for a log that is to be emptied: only transactions that
// wrote into it before capture stopped are in the way.
const emptyWait = "5s"

// ResumeOverGap lets capture that was stopped at the hard limit go on, with an empty
// log, in one transaction in which a gap stands for every database that reads it. So
// no position can pass what was not recorded, and the log does not stop at its limit
// again at once. It reports whether capture was stopped. A snapshot from which a copy
// may start over is to be taken only after AwaitWriters.
func (s Side) ResumeOverGap(ctx context.Context, conn *pgx.Conn) (resumed bool, err error) {
	err = postgres.WithTx(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		functions, tables, err := s.stoppedTables(ctx, tx)
		if err != nil || len(tables) == 0 {
			return err
		}
		for _, database := range s.readers() {
			gap := Gap{Database: database, Direction: s.Direction(), Reason: "capture was stopped"}
			if err := MarkGap(ctx, tx, s.migration(), gap); err != nil {
				return err
			}
		}
		if err := s.empty(ctx, tx, tables); err != nil {
			return err
		}
		resumed = true
		return ddl.Exec(ctx, tx, functions)
	})
	if err != nil {
		return false, fmt.Errorf("resume capture on %s: %w", s.Name(), err)
	}
	return resumed, nil
}

// stoppedTables locks all segments, and gives the tables that are not captured since
// capture was stopped, with what makes it go on.
func (s Side) stoppedTables(ctx context.Context, tx pgx.Tx) (functions []ddl.Statement, tables []*layout.Table, err error) {
	for _, t := range s.Tables() {
		active, err := s.lockSegment(ctx, tx, t)
		if err != nil {
			return nil, nil, err
		}
		is, err := s.readLog(ctx, tx, t)
		if err != nil {
			return nil, nil, err
		}
		if s.stopped(t, is) {
			functions, tables = append(functions, s.functionsDDL(t, active)...), append(tables, t)
		}
	}
	return functions, tables, nil
}

// empty truncates the logs of some tables. Nobody may need what is in them. How far they
// reached is noted all the same: a position from before is refused also without its gap.
func (s Side) empty(ctx context.Context, tx pgx.Tx, tables []*layout.Table) error {
	var names []string
	for _, t := range tables {
		names = append(names, s.segments(t)...)
	}
	list := strings.Join(names, ", ")
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+emptyWait+"'"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE "+list+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		if postgres.SQLState(err) == "55P03" {
			return migrate.Refuse("restart.log_in_use", s.Name(), "the log is still held by transactions that wrote before capture stopped, or by somebody who reads it",
				"wait for them or end them (pg_locks, tables "+list+"), then run the command again")
		}
		return err
	}
	// A statement of its own after the lock: whoever wrote into the logs has ended by now.
	const mark = `INSERT INTO shardctl.low_water (migration, table_no, segment, snapshot) SELECT $1, $2, generate_series(0, $3::int - 1), pg_current_snapshot()
	ON CONFLICT (migration, table_no, segment) DO UPDATE SET snapshot = excluded.snapshot, at = clock_timestamp()`
	for _, t := range tables {
		if _, err := tx.Exec(ctx, mark, s.migration(), t.No, len(s.segments(t))); err != nil {
			return fmt.Errorf("note how far the log of %s reached: %w", t.Name(), err)
		}
	}
	_, err := tx.Exec(ctx, "TRUNCATE "+list)
	return err
}

// AwaitWriters waits until every transaction has ended that holds a writer's lock on a
// captured table now, at most for the limit. After capture was resumed, these may have
// written, and may still write, without being recorded: a function is looked up anew
// only when a lock is taken. Everybody who comes later is recorded.
func (s Side) AwaitWriters(ctx context.Context, q postgres.Querier, limit time.Duration) error {
	waiting, err := s.writers(ctx, q, nil)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(limit)
	for len(waiting) > 0 {
		if time.Now().After(deadline) {
			return s.writersFailure(ctx, q, waiting)
		}
		if err := sleep.For(ctx, writersPoll); err != nil {
			return err
		}
		if waiting, err = s.writers(ctx, q, waiting); err != nil {
			return err
		}
	}
	return nil
}

const writersPoll = 20 * time.Millisecond

// writers are the transactions that hold a writer's lock on a captured table; of some
// given ones, those that still do. A prepared one may have been any of them: it always
// counts.
func (s Side) writers(ctx context.Context, q postgres.Querier, of []string) ([]string, error) {
	var tables []uint32
	for _, t := range s.Tables() {
		tables = append(tables, t.Source.OID)
		for _, leaf := range t.Source.Leaves {
			tables = append(tables, leaf.OID)
		}
	}
	const sql = `SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted AND relation = ANY ($1::oid[])
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	AND pid IS DISTINCT FROM pg_backend_pid() AND ($2::text[] IS NULL OR pid IS NULL OR virtualtransaction = ANY ($2))`
	rows, err := q.Query(ctx, sql, tables, of)
	if err != nil {
		return nil, fmt.Errorf("look for writers on %s: %w", s.Name(), err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for writers on %s: %w", s.Name(), err)
	}
	return out, nil
}

func (s Side) writersFailure(ctx context.Context, q postgres.Querier, waiting []string) error {
	const sql = `SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction' ELSE format('pid %s (%s): %s', l.pid, a.application_name, left(a.query, 80)) END
	FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid) WHERE l.virtualtransaction = ANY ($1) LIMIT 5`
	rows, err := q.Query(ctx, sql, waiting)
	if err != nil {
		return fmt.Errorf("look for writers on %s: %w", s.Name(), err)
	}
	who, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for writers on %s: %w", s.Name(), err)
	}
	return migrate.Refuse("restart.writers", s.Name(), "transactions are open that may have written while nothing was recorded: "+strings.Join(who, "; "),
		"wait for them or end them, then run the command again")
}

// EndGap forgets a database's gap once its copy has started over, unless capture was
// stopped again meanwhile: then the gap is true again.
func (s Side) EndGap(ctx context.Context, conn *pgx.Conn, database string) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, stopped, err := s.stoppedTables(ctx, tx)
		if err != nil {
			return err
		}
		if len(stopped) > 0 {
			return migrate.Refuse(gapCode, database, "capture was stopped again meanwhile", "run the command again")
		}
		return ClearGap(ctx, tx, s.migration(), database, s.Direction())
	})
	if err != nil {
		return fmt.Errorf("end the gap of %s: %w", database, err)
	}
	return nil
}
