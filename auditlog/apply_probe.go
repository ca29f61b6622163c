package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// probe writes one entry of op P into every table's log on a side, in one
// transaction, and gives its xid. Nothing is applied for it; a tick that counted it
// in its batch has seen all that was committed before. It needs no lock on a table
// of the user's, so it works behind fences and while an operator holds them.
func (p *plan) probe(ctx context.Context, q postgres.Querier, tables []*tablePlan) (xid uint64, err error) {
	if len(tables) == 0 {
		return 0, nil
	}
	active, err := p.activeSegments(ctx, q)
	if err != nil {
		return 0, err
	}
	var parts []string
	for _, t := range tables {
		parts = append(parts, fmt.Sprintf("p%d AS (INSERT INTO %s (op) VALUES ('P'))", t.No, p.logs(t.Table)[active[t.No]]))
	}
	var text string
	sql := "WITH " + strings.Join(parts, ", ") + " SELECT pg_current_xact_id()::text"
	if err := q.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(&text); err != nil {
		return 0, fmt.Errorf("write a probe: %w", err)
	}
	_, err = fmt.Sscan(text, &xid)
	return xid, err
}

// activeSegments reads which segment each table's log is written to.
func (p *plan) activeSegments(ctx context.Context, q postgres.Querier) (map[int]int, error) {
	rows, err := q.Query(ctx, "SELECT table_no, active FROM shardctl.segment WHERE migration = $1", p.layout.Spec.Migration)
	if err != nil {
		return nil, fmt.Errorf("read the active segments: %w", err)
	}
	out := map[int]int{}
	var table, active int
	_, err = pgx.ForEachRow(rows, []any{&table, &active}, func() error {
		out[table] = active
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the active segments: %w", err)
	}
	return out, nil
}
