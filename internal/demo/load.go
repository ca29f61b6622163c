package demo

import (
	"context"
	_ "embed"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed load.sql
var loadSQL string

// proportions of a demo's rows: one workspace has a few hundred blocks, two
// comments come on three blocks.
const (
	workspaceShare = 0.005
	blockShare     = 0.6
)

// load makes the tables and their rows on the source, and notes every row in the
// ledger: what was loaded was acknowledged too.
func load(ctx context.Context, conn *pgx.Conn, rows int, book *ledger) error {
	if _, err := conn.Exec(ctx, loadSQL); err != nil {
		return fmt.Errorf("make the demo's tables: %w", err)
	}
	workspaces := max(int(math.Round(float64(rows)*workspaceShare)), 16)
	blocks := int(float64(rows) * blockShare)
	comments := rows - workspaces - blocks
	ids := map[string][]uuid.UUID{}
	for _, part := range []struct {
		table, parent string
		n             int
	}{{"workspace", "", workspaces}, {"block", "workspace", blocks}, {"comment", "block", comments}} {
		made := make([]row, part.n)
		for i := range made {
			made[i] = row{table: part.table, id: uuid.New(), body: fmt.Sprintf("loaded %s %d", part.table, i), version: 1}
			if parents := ids[part.parent]; len(parents) > 0 {
				made[i].parent = parents[i%len(parents)]
			}
			ids[part.table] = append(ids[part.table], made[i].id)
			book.acknowledge(made[i])
		}
		if err := copyRows(ctx, conn, part.table, made); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, "ANALYZE workspace, block, comment")
	return err
}

// parentColumn is the column that holds a row's parent, by table.
var parentColumn = map[string]string{"block": "workspace_id", "comment": "block_id"}

func copyRows(ctx context.Context, conn *pgx.Conn, table string, rows []row) error {
	columns := []string{"id", "body", "version"}
	parent := parentColumn[table]
	if parent != "" {
		columns = append(columns, parent)
	}
	source := pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		r := rows[i]
		values := []any{[16]byte(r.id), r.body, r.version}
		if parent != "" {
			values = append(values, [16]byte(r.parent))
		}
		return values, nil
	})
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{table}, columns, source); err != nil {
		return fmt.Errorf("load %s: %w", table, err)
	}
	return nil
}
