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

// reconcile sets the queue right by what the databases' ledgers say: a chunk that
// a database lacks is pending there, one that it has is not. It gives the number
// of chunks that a database of this run lacks. Chunks that are being copied are
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
