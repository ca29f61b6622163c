package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// strayBatch bounds how many stray writes are carried at once.
const strayBatch = 1000

// noteStrays records on the source the writes to shards that a database owns by
// now: its rows win, but what was written must be known. The record is committed
// before the position moves past its entries; after a crash in between it is there
// twice, which a reader of keys does not mind.
func (r *reader) noteStrays(ctx context.Context, tx pgx.Tx, g *group, m *member, now present) error {
	for no := range m.strays {
		t := r.a.plan.tables[no-1]
		sql := r.a.plan.straySQL(t, g.entries, r.a.plan.locations(m.db.place))
		if err := r.copyStrays(ctx, tx, sql, m, t, now); err != nil {
			return fmt.Errorf("record stray writes to %s: %w", t.Name(), err)
		}
	}
	return nil
}

func (r *reader) copyStrays(ctx context.Context, tx pgx.Tx, sql string, m *member, t *tablePlan, now present) error {
	rows, err := tx.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	defer rows.Close()
	var keys []string
	var data []*string
	flush := func() error {
		conn, err := r.mark.get(ctx)
		if err != nil || len(keys) == 0 {
			return err
		}
		const insert = `INSERT INTO shardctl.stray (migration, database, table_no, key, "row", snapshot)
	SELECT $1, $2, $3, s.k::jsonb, s.r::jsonb, $6::text::pg_snapshot FROM unnest($4::text[], $5::text[]) s(k, r)`
		_, err = conn.Exec(ctx, insert, r.a.migration(), m.db.name(), t.No, keys, data, now.now.String())
		m.strayed += int64(len(keys))
		keys, data = nil, nil
		return err
	}
	for rows.Next() {
		var key string
		var row *string
		if err := rows.Scan(&key, &row); err != nil {
			return err
		}
		keys, data = append(keys, key), append(data, row)
		if len(keys) == strayBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return flush()
}

// straySQL selects the keys of a batch that are or were at some locations, with
// their rows.
func (p *plan) straySQL(t *tablePlan, e entries, locations []int) string {
	q := &ctes{plan: p, entries: e, done: map[string]bool{}}
	known := q.known(t)
	return fmt.Sprintf(`%sSELECT DISTINCT x.shardctl_k::text, x.shardctl_row::text FROM (
  SELECT %s AS shardctl_k, CASE WHEN r.shardctl_cur IS NOT NULL THEN pg_catalog.to_jsonb(r) - '{shardctl_cur,shardctl_key}'::text[] END AS shardctl_row, %s AS shardctl_old, coalesce(r.shardctl_cur, %d) AS shardctl_cur
  FROM %s e LEFT JOIN LATERAL (%s WHERE %s OFFSET 0) r ON true) x
WHERE x.shardctl_old = %d OR x.shardctl_old = ANY ('{%[9]s}'::int[]) OR x.shardctl_cur = ANY ('{%[9]s}'::int[])`,
		q.with(), keyJSON("e", t.Table), p.oldLocation(t), nowhere, known, p.currentRow(t), t.SamePK("r", "e"), anywhere, joinInts(locations))
}
