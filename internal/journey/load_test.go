package journey

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Loaded rows hold values that have several texts for one meaning, or need quoting.
const (
	loadPlans = `INSERT INTO plan (name, price, features)
SELECT 'plan ' || i, CASE WHEN i % 7 > 0 THEN i * 1.10 END, CASE WHEN i % 3 > 0 THEN ARRAY['a,' || i, NULL, '{"}'] ELSE '{}' END FROM generate_series(1, $1::int) i`
	loadBlocks = `INSERT INTO block (id, workspace_id, plan_id, doc, tags, amount, at, version)
SELECT gen_random_uuid(), ($2::uuid[])[1 + i % cardinality($2::uuid[])], CASE WHEN i % 4 > 0 THEN 1 + i % $3::int END,
  jsonb_build_object('n', i, 'text', repeat(md5(i::text), i % 5), 'é', E'line\nand\ttab\\ "quoted"'), CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '{}' ELSE ARRAY['t' || i, 'ü,{}', NULL, 'NULL'] END,
  CASE i % 6 WHEN 0 THEN NULL WHEN 1 THEN 1.0 WHEN 2 THEN 1.00 WHEN 3 THEN 'NaN' ELSE i / 7.0 END, '2020-01-01'::timestamptz + i * interval '1.000001 s', 1
FROM generate_series(1, $1::int) i`
	loadComments = `INSERT INTO comment (block_id, body)
SELECT id, CASE WHEN n % 9 = 0 THEN E'back\\slash and \n newline' ELSE 'said ' || n END FROM (SELECT id, row_number() OVER () AS n FROM block) b WHERE n % 3 > 0`
)

// load fills the source's tables and reads them back into the writers' books: what was
// loaded is acknowledged too. Each writer has workspaces of its own.
func (w *world) load() []*writer {
	w.t.Helper()
	writers := make([]*writer, w.writers)
	var keys []string
	for i := range writers {
		writers[i] = newWriter(w, i)
		for range workspacesPerWriter {
			id := uuid.NewString()
			writers[i].workspaces = append(writers[i].workspaces, id)
			keys = append(keys, id)
		}
	}
	w.on(w.sourceDSN(), func(ctx context.Context, conn *pgx.Conn) error {
		for _, load := range []struct {
			sql  string
			args []any
		}{{loadPlans, []any{plans}}, {loadBlocks, []any{w.blocks, keys, plans}}, {loadComments, nil}, {"ANALYZE plan, block, comment", nil}} {
			if _, err := conn.Exec(ctx, load.sql, load.args...); err != nil {
				return fmt.Errorf("%s: %w", load.sql, err)
			}
		}
		return note(ctx, conn, writers)
	})
	w.place(writers)
	return writers
}

// note enters every row of the source into the book of its writer.
func note(ctx context.Context, conn *pgx.Conn, writers []*writer) error {
	owner := map[string]*writer{}
	for _, x := range writers {
		for _, id := range x.workspaces {
			owner[id] = x
		}
	}
	blocks, owners := map[string]*block{}, map[*block]*writer{}
	err := read(ctx, conn, "SELECT b.id, b.workspace_id, "+blockText+" FROM public.block b", func(v []string) error {
		b := &block{id: v[0], workspace: v[1], state: v[2]}
		blocks[b.id], owners[b] = b, owner[b.workspace]
		owner[b.workspace].addBlock(b)
		return nil
	})
	if err != nil {
		return err
	}
	err = read(ctx, conn, "SELECT c.id, c.block_id, "+commentText+" FROM public.comment c", func(v []string) error {
		id, err := strconv.ParseInt(v[0], 10, 64)
		on := blocks[v[1]]
		owners[on].addComment(&comment{id: id, state: v[2], on: on})
		return err
	})
	if err != nil {
		return err
	}
	return read(ctx, conn, "SELECT p.id, "+planText+" FROM public.plan p", func(v []string) error {
		id, err := strconv.ParseInt(v[0], 10, 64)
		x := writers[int(id)%len(writers)]
		x.plans = append(x.plans, &plan{id: id, state: v[1], kept: true})
		return err
	})
}

// read runs a query by the simple protocol and passes the values of each row on as text.
func read(ctx context.Context, conn *pgx.Conn, sql string, each func([]string) error) error {
	results := conn.PgConn().Exec(ctx, sql)
	var failed error
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			values := make([]string, len(rows.Values()))
			for i, v := range rows.Values() {
				values[i] = string(v) // NULL is ""
			}
			if err := each(values); err != nil && failed == nil {
				failed = err
			}
		}
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return failed
}
