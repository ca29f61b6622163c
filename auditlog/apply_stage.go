package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/migrate"
)

// indexedFrom is from how many locations a staging table is worth an index: each
// location's statements otherwise pass over all rows.
const indexedFrom = 9

// stage is a table of the session that takes the rows of one table before they
// are applied, with the statements' view of it.
type stage struct {
	table   *tablePlan
	name    string // quoted
	conn    *pgx.Conn
	textual bool // all columns are text: a value that the type refuses fails alone
	columns []stageColumn
	format  rowstream.Format
}

// stageColumn is a column of the written table.
type stageColumn struct {
	name   string // quoted
	typ    string // without a modifier, which a cast would apply silently
	pk     bool
	always bool // identity ALWAYS: can be inserted, not updated
}

// expr is the SQL for a staged column, aliased s, in the written table's type.
func (s *stage) expr(c stageColumn) string {
	if s.textual {
		return "s." + c.name + "::" + c.typ
	}
	return "s." + c.name
}

// same is the condition that a row of the written table, aliased t, has the
// staged key.
func (s *stage) same(t string) string {
	parts := make([]string, len(s.table.PK))
	for i, c := range s.table.PK {
		col := s.column(c.Name)
		parts[i] = t + "." + col.name + " " + s.table.Source.KeyEqual[i] + " " + s.expr(col)
	}
	return strings.Join(parts, " AND ")
}

func (s *stage) column(name string) stageColumn {
	for _, c := range s.columns {
		if c.name == postgres.Ident(name) {
			return c
		}
	}
	return stageColumn{name: postgres.Ident(name), typ: "text"}
}

// keyJSON is the SQL for a staged key as the state stores it: an array of texts.
func (s *stage) keyJSON() string {
	return keyJSON("s", s.table.Table)
}

func keyJSON(alias string, t *layout.Table) string {
	parts := make([]string, len(t.PK))
	for i, c := range t.PK {
		parts[i] = alias + "." + postgres.Ident(c.Name) + "::text"
	}
	return "pg_catalog.jsonb_build_array(" + strings.Join(parts, ", ") + ")"
}

// copySQL takes rows into the stage.
func (s *stage) copySQL() string {
	return fmt.Sprintf("COPY %s FROM STDIN (FORMAT %s)", s.name, s.format)
}

// makeStage makes the staging table of a session for rows that will be written
// to a table, one of those of the same shape. The lead columns come first.
func makeStage(ctx context.Context, conn *pgx.Conn, t *tablePlan, written migrate.TableName, names []string, lead string, textual bool) (*stage, error) {
	s := &stage{table: t, textual: textual, conn: conn, format: t.format, name: fmt.Sprintf("pg_temp.stage_%d", t.No)}
	if textual {
		s.format, s.name = rowstream.Text, fmt.Sprintf("pg_temp.text_stage_%d", t.No)
	}
	if err := s.readColumns(ctx, conn, written, names); err != nil {
		return nil, err
	}
	// One may be there whose index could not be made.
	create := fmt.Sprintf("DROP TABLE IF EXISTS %s; CREATE TEMP TABLE %s ON COMMIT DELETE ROWS AS SELECT %s, %s FROM %s t WITH NO DATA", s.name,
		strings.TrimPrefix(s.name, "pg_temp."), lead, s.definitions(), postgres.Table(written.Schema, written.Name))
	if _, err := conn.Exec(ctx, create); err != nil {
		return nil, fmt.Errorf("make the staging table of %s: %w", t.Name(), err)
	}
	return s, nil
}

func (s *stage) definitions() string {
	out := make([]string, len(s.columns))
	for i, c := range s.columns {
		out[i] = "t." + c.name
		if s.textual {
			out[i] = "NULL::text AS " + c.name
		}
	}
	return strings.Join(out, ", ")
}

const columnsOfSQL = `SELECT a.attname::text, format_type(a.atttypid, -1), a.attidentity = 'a', a.attgenerated <> ''
FROM pg_attribute a WHERE a.attrelid = format('%I.%I', $1::text, $2::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped`

// readColumns fits the staged columns to those of the written table.
func (s *stage) readColumns(ctx context.Context, conn *pgx.Conn, written migrate.TableName, names []string) error {
	rows, err := conn.Query(ctx, columnsOfSQL, pgx.QueryExecModeExec, written.Schema, written.Name)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", written, err)
	}
	found := map[string]stageColumn{}
	var name, typ string
	var always, generated bool
	_, err = pgx.ForEachRow(rows, []any{&name, &typ, &always, &generated}, func() error {
		if !generated {
			found[name] = stageColumn{name: postgres.Ident(name), typ: typ, always: always}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", written, err)
	}
	for _, n := range names {
		c, ok := found[n]
		if !ok {
			return migrate.Refuse("table.column", written.String()+"."+n, "the table that is written has no such column to insert",
				"give both sides the same columns, then run the command again")
		}
		c.pk = isKey(s.table.PK, n)
		s.columns = append(s.columns, c)
	}
	return nil
}

func isKey(pk []catalog.Column, name string) bool {
	for _, c := range pk {
		if c.Name == name {
			return true
		}
	}
	return false
}
