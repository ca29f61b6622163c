package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
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

// strayKeys are keys of one table on their way to shardctl.stray.
type strayKeys struct {
	keys []string
	rows []*string
	// unsure are those of which it is not known where they were: only the database can
	// tell whether they are its own.
	unsure []string
}

func (r *reader) copyStrays(ctx context.Context, tx pgx.Tx, sql string, m *member, t *tablePlan, now present) error {
	rows, err := tx.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	defer rows.Close()
	var found strayKeys
	unsureRows := map[string]*string{}
	flush := func() error {
		held, err := m.db.holds(ctx, t, found.unsure)
		if err != nil {
			return err
		}
		for _, key := range held {
			found.keys, found.rows = append(found.keys, key), append(found.rows, unsureRows[key])
		}
		clear(unsureRows)
		err = r.writeStrays(ctx, m, t, found, now)
		found = strayKeys{}
		return err
	}
	for rows.Next() {
		var key string
		var row *string
		var sure bool
		if err := rows.Scan(&key, &row, &sure); err != nil {
			return err
		}
		if sure {
			found.keys, found.rows = append(found.keys, key), append(found.rows, row)
		} else {
			found.unsure, unsureRows[key] = append(found.unsure, key), row
		}
		if len(found.keys)+len(found.unsure) == strayBatch {
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

func (r *reader) writeStrays(ctx context.Context, m *member, t *tablePlan, found strayKeys, now present) error {
	if len(found.keys) == 0 {
		return nil
	}
	conn, err := r.mark.get(ctx)
	if err != nil {
		return err
	}
	const insert = `INSERT INTO shardctl.stray (migration, database, table_no, key, "row", snapshot)
	SELECT $1, $2, $3, s.k::jsonb, s.r::jsonb, $6::text::pg_snapshot FROM unnest($4::text[], $5::text[]) s(k, r)`
	_, err = conn.Exec(ctx, insert, r.a.migration(), m.db.name(), t.No, found.keys, found.rows, now.now.String())
	m.strayed += int64(len(found.keys))
	return err
}

// holds gives, of some keys, those that the database has a row of.
func (db *database) holds(ctx context.Context, t *tablePlan, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	conn, err := postgres.Connect(ctx, db.write.target, "catchup strays") // seldom, and its other sessions are at work
	if err != nil {
		return nil, err
	}
	defer postgres.CloseQuietly(ctx, conn)
	rows, err := conn.Query(ctx, db.a.plan.heldSQL(t, db.a.plan.spots(t, db.place), keys), pgx.QueryExecModeExec)
	if err != nil {
		return nil, fmt.Errorf("look for %s on %s: %w", t.Name(), db.name(), err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for %s on %s: %w", t.Name(), db.name(), err)
	}
	return held, nil
}

// heldSQL selects the keys that have a row at some places, as they are given.
func (p *plan) heldSQL(t *tablePlan, at []spot, keys []string) string {
	var parts []string
	for _, s := range at {
		parts = append(parts, fmt.Sprintf("SELECT %s::text FROM (%s) x JOIN %s t ON %s", keyJSON("x", t.Table), extraKeys(t, keys), s.table, t.SamePK("t", "x")))
	}
	return strings.Join(parts, "\nUNION ")
}

// straySQL selects the keys of a batch that are or were at some locations, with
// their rows, and whether that is known: of others it is not known where they were.
func (p *plan) straySQL(t *tablePlan, e entries, locations []int) string {
	q := &ctes{plan: p, entries: e, done: map[string]bool{}}
	known := q.known(t)
	return fmt.Sprintf(`%sSELECT x.shardctl_k::text, min(x.shardctl_row::text), bool_or(x.shardctl_ours) FROM (
  SELECT %s AS shardctl_k, CASE WHEN r.shardctl_cur IS NOT NULL THEN pg_catalog.to_jsonb(r) - '{shardctl_cur,shardctl_key}'::text[] END AS shardctl_row, y.shardctl_old,
    coalesce(y.shardctl_old = ANY ('{%[8]s}'::int[]), false) OR coalesce(r.shardctl_cur = ANY ('{%[8]s}'::int[]), false) AS shardctl_ours
  FROM %[4]s e LEFT JOIN LATERAL (%[5]s WHERE %[6]s OFFSET 0) r ON true CROSS JOIN LATERAL (SELECT %[3]s AS shardctl_old) y) x
WHERE x.shardctl_ours OR x.shardctl_old = %[7]d GROUP BY 1`,
		q.with(), keyJSON("e", t.Table), p.oldLocation(t), known, p.currentRow(t), t.SamePK("r", "e"), anywhere, joinInts(locations))
}
