package backfill

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Missing counts the chunks that the source's plans have and a database's ledger
// lacks. It is the one answer to "is it copied", also for the gates: a database
// that failed over may have lost what the queue remembers as done. A plan that
// is not handed out in full counts as one more.
func Missing(ctx context.Context, source, database postgres.Querier, migration string) (int, error) {
	have, err := ledgerOf(ctx, database, migration)
	if err != nil {
		return 0, err
	}
	want, err := chunksOf(ctx, source, migration)
	if err != nil {
		return 0, err
	}
	missing := 0
	for k := range want {
		if !have[k] {
			missing++
		}
	}
	var open int
	const sql = `SELECT count(*) FILTER (WHERE next_page IS NOT NULL) + (count(*) = 0)::int FROM shardctl.backfill_plan WHERE migration = $1`
	if err := source.QueryRow(ctx, sql, migration).Scan(&open); err != nil {
		return 0, fmt.Errorf("read the backfill's plan: %w", err)
	}
	return missing + open, nil
}

func ledgerOf(ctx context.Context, database postgres.Querier, migration string) (map[chunkKey]bool, error) {
	return chunkKeys(ctx, database, `SELECT plan, table_no, chunk FROM shardctl.ledger WHERE migration = $1`, migration)
}

func chunksOf(ctx context.Context, source postgres.Querier, migration string) (map[chunkKey]bool, error) {
	return chunkKeys(ctx, source, `SELECT plan, table_no, no FROM shardctl.chunk WHERE migration = $1`, migration)
}

func chunkKeys(ctx context.Context, q postgres.Querier, sql, migration string) (map[chunkKey]bool, error) {
	rows, err := q.Query(ctx, sql, migration)
	if err != nil {
		return nil, fmt.Errorf("read the chunks: %w", err)
	}
	out := map[chunkKey]bool{}
	var k chunkKey
	_, err = pgx.ForEachRow(rows, []any{&k.plan, &k.tableNo, &k.no}, func() error {
		out[k] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the chunks: %w", err)
	}
	return out, nil
}

// Lacking says what a database's copy lacks: chunks, or what follows them; "" if it is
// whole.
func Lacking(ctx context.Context, source, database postgres.Querier, migration, name string) (string, error) {
	missing, err := Missing(ctx, source, database, migration)
	if err != nil {
		return "", err
	}
	if missing > 0 {
		return "its ledger lacks chunks: it was started anew, or has failed over and lost them", nil
	}
	var finished bool
	const sql = `SELECT EXISTS (SELECT FROM shardctl.backfill_mode WHERE migration = $1 AND database = $2 AND finished_at IS NOT NULL)`
	if err := source.QueryRow(ctx, sql, migration, name).Scan(&finished); err != nil {
		return "", fmt.Errorf("read the backfill's modes: %w", err)
	}
	if !finished {
		return "what follows the copy was not made", nil
	}
	return "", nil
}

// Unfinished are the databases, in order, whose copy was begun and is not whole yet, by
// what the source knows of it.
func Unfinished(ctx context.Context, source postgres.Querier, migration string) ([]string, error) {
	rows, err := source.Query(ctx, `SELECT database FROM shardctl.backfill_mode WHERE migration = $1 AND finished_at IS NULL ORDER BY database`, migration)
	if err != nil {
		return nil, fmt.Errorf("read the backfill's modes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the backfill's modes: %w", err)
	}
	return out, nil
}

// Reopen notes on the source that a database has to be copied and finished again: before it
// is emptied, and where it has lost chunks.
func Reopen(ctx context.Context, source postgres.Querier, migration, database string) error {
	const sql = `UPDATE shardctl.backfill_mode SET finished_at = NULL WHERE migration = $1 AND database = $2 AND finished_at IS NOT NULL`
	if _, err := source.Exec(ctx, sql, migration, database); err != nil {
		return fmt.Errorf("note that %s is to be copied anew: %w", database, err)
	}
	return nil
}

// reconcile sets the queue right by what the databases' ledgers say: a chunk that
// a database lacks is pending there, one that it has is not. A database that lacks any
// is to be finished again: with chunks it may have lost what followed them. It gives the
// number of chunks that a database of this run lacks. Chunks that are being copied are
// left alone.
func (q *queue) reconcile(ctx context.Context, ledgers map[string]map[chunkKey]bool) (lacking int, err error) {
	err = q.with(ctx, func(conn *pgx.Conn) error {
		chunks, err := chunksOf(ctx, conn, q.migration())
		if err != nil {
			return err
		}
		for database, have := range ledgers {
			var lost, kept []chunkKey
			for k := range chunks {
				if have[k] {
					kept = append(kept, k)
				} else {
					lost = append(lost, k)
				}
			}
			lacking += len(lost)
			if len(lost) > 0 {
				if err := Reopen(ctx, conn, q.migration(), database); err != nil {
					return err
				}
			}
			if err := q.mark(ctx, conn, database, lost, kept); err != nil {
				return fmt.Errorf("set the queue right: %w", err)
			}
		}
		var open int
		const sql = `SELECT count(*) FROM shardctl.backfill_plan WHERE migration = $1 AND next_page IS NOT NULL`
		if err := conn.QueryRow(ctx, sql, q.migration()).Scan(&open); err != nil {
			return fmt.Errorf("read the backfill's plan: %w", err)
		}
		lacking += open
		return nil
	})
	return lacking, err
}

func (q *queue) mark(ctx context.Context, conn *pgx.Conn, database string, lost, kept []chunkKey) error {
	const from = ` FROM unnest($2::bigint[], $3::int[], $4::int[]) k(plan, table_no, no)
	WHERE c.migration = $1 AND (c.plan, c.table_no, c.no) = (k.plan, k.table_no, k.no) AND `
	const add = `UPDATE shardctl.chunk c SET pending = c.pending || $5::text, state = CASE c.state WHEN 'done' THEN 'todo' ELSE c.state END, done_at = NULL` + from + `NOT $5 = ANY (c.pending)`
	const remove = `UPDATE shardctl.chunk c SET pending = array_remove(c.pending, $5::text),
	  state = CASE WHEN array_remove(c.pending, $5) = '{}' THEN 'done' ELSE c.state END,
	  done_at = CASE WHEN array_remove(c.pending, $5) = '{}' THEN clock_timestamp() END` + from + `c.state = 'todo' AND $5 = ANY (c.pending)`
	for sql, list := range map[string][]chunkKey{add: lost, remove: kept} {
		plans, tables, nos := make([]int64, len(list)), make([]int, len(list)), make([]int, len(list))
		for i, k := range list {
			plans[i], tables[i], nos[i] = k.plan, k.tableNo, k.no
		}
		if _, err := conn.Exec(ctx, sql, q.migration(), plans, tables, nos, database); err != nil {
			return err
		}
	}
	return nil
}
