package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Repairer has keys read again by the applier.
type Repairer interface {
	// AppendReread appends keys of a table (its name on the source) to the log that the
	// database follows or, where it owns the table's rows, to its own.
	AppendReread(ctx context.Context, database string, table migrate.TableName, keys ...[]string) error
}

// Repair hands the keys of all differences that stand, and those of their rows'
// parents, to the log. It gives how many differences that were. It proves nothing:
// only a later clean pass does, and until then the state stays as it is.
func (v *Verifier) Repair(ctx context.Context, r Repairer) (int, error) {
	var found []Difference
	if err := v.ensureState(ctx); err != nil {
		return 0, err
	}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) (err error) {
		found, err = v.standing(ctx, conn)
		return err
	})
	if err != nil {
		return 0, err
	}
	type target struct {
		database string
		no       int
	}
	keys := map[target][]key{}
	var order []target
	for _, d := range found {
		to := target{d.Database, v.cfg.Layout.Table(d.Table).No}
		if keys[to] == nil {
			order = append(order, to)
		}
		keys[to] = append(keys[to], d.Key)
	}
	for _, to := range order {
		if err := v.repair(ctx, r, to.database, v.cfg.Layout.Tables[to.no-1], keys[to]); err != nil {
			return 0, err
		}
	}
	return len(found), v.markRepaired(ctx)
}

// repair appends parents first: a child goes to where its parent is.
func (v *Verifier) repair(ctx context.Context, r Repairer, database string, t *layout.Table, keys []key) error {
	b, err := v.builder(ctx, []*server{v.source})
	if err != nil {
		return err
	}
	var found [][]row
	err = v.onSource(ctx, func(conn *pgxpool.Conn) error {
		found, err = lookup(ctx, conn, b, t, nil, keys, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("find the parents of rows of %s: %w", t.Name(), err)
	}
	chain := t.Chain()
	for depth := len(chain) - 1; depth >= 0; depth-- {
		var parents [][]string
		for _, rows := range found {
			for _, r := range rows {
				if depth < len(r.parents) && r.parents[depth] != nil {
					parents = append(parents, []string{*r.parents[depth]})
				}
			}
		}
		if len(parents) == 0 {
			continue
		}
		if err := r.AppendReread(ctx, database, chain[depth].Spec.Name, parents...); err != nil {
			return fmt.Errorf("have rows of %s read again: %w", chain[depth].Name(), err)
		}
	}
	own := make([][]string, len(keys))
	for i, k := range keys {
		own[i] = k
	}
	if err := r.AppendReread(ctx, database, t.Spec.Name, own...); err != nil {
		return fmt.Errorf("have rows of %s read again: %w", t.Name(), err)
	}
	return nil
}

// standing lists the differences that no later full pass has overtaken.
func (v *Verifier) standing(ctx context.Context, q postgres.Querier) ([]Difference, error) {
	rows, err := q.Query(ctx, standingSQL, v.migration())
	if err != nil {
		return nil, fmt.Errorf("read the differences: %w", err)
	}
	var d Difference
	var no int
	var out []Difference
	_, err = pgx.ForEachRow(rows, []any{&d.Kind, &no, &d.Key, &d.Database, &d.Schema, &d.Columns, &d.Direction}, func() error {
		d.Table = v.cfg.Layout.Tables[no-1].Spec.Name
		out = append(out, d)
		d = Difference{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the differences: %w", err)
	}
	return out, nil
}

// standingSQL selects what was found since the last full pass began: by it, or by
// rounds and samples after it; of each row what was found last.
const standingSQL = `SELECT d.kind, d.table_no, d.key, d.database, d.schema_name, d.columns, d.direction
FROM (SELECT DISTINCT ON (database, schema_name, table_no, key) * FROM shardctl.verify_difference WHERE migration = $1 AND at >= coalesce((SELECT max(p.started_at)
FROM shardctl.verify_pass p WHERE p.migration = $1 AND p.mode = 'full' AND p.finished_at IS NOT NULL), '-infinity')
ORDER BY database, schema_name, table_no, key, at DESC, no DESC) d ORDER BY d.at, d.no`

func (v *Verifier) markRepaired(ctx context.Context) error {
	const sql = `UPDATE shardctl.verify_difference SET repaired_at = clock_timestamp() WHERE migration = $1 AND repaired_at IS NULL`
	return v.onSource(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, sql, v.migration()); err != nil {
			return fmt.Errorf("note the repair: %w", err)
		}
		return nil
	})
}
