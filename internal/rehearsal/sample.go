package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// copyRows takes rows of every table of the spec in one snapshot: a derived table's
// only with their parents', everywhere tables whole.
func (w *World) copyRows(ctx context.Context, real *pgx.Conn, o Options) error {
	l, err := layout.Load(ctx, real, o.Spec)
	if err != nil {
		return err
	}
	conn, err := local(ctx, w.source, sourceName)
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return fmt.Errorf("hold off triggers: %w", err)
	}
	tables := slices.Clone(l.Tables) // parents first
	slices.SortStableFunc(tables, func(a, b *layout.Table) int { return len(a.Chain()) - len(b.Chain()) })
	err = postgres.WithTx(ctx, real, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, t := range tables {
			query, err := sample(ctx, conn, t, o.Rows)
			if err != nil {
				return err
			}
			n, err := copyTable(ctx, tx.Conn(), conn, t, query)
			if err != nil {
				return fmt.Errorf("take rows of %s: %w", t.Name(), err)
			}
			w.Rows += n
		}
		return nil
	})
	if err != nil {
		return err
	}
	return dropDangling(ctx, conn, l)
}

// sample picks rows of a table: any, or those of the parents that were taken.
func sample(ctx context.Context, taken *pgx.Conn, t *layout.Table, rows int) (string, error) {
	switch {
	case t.Everywhere():
		return "SELECT * FROM " + t.QualifiedSource(), nil
	case !t.Derived():
		return fmt.Sprintf("SELECT * FROM %s LIMIT %d", t.QualifiedSource(), rows), nil
	}
	var parents string
	sql := fmt.Sprintf("SELECT coalesce(array_agg(%s)::text, '{}') FROM %s", postgres.Ident(t.Parent.PK[0].Name), t.Parent.QualifiedSource())
	if err := taken.QueryRow(ctx, sql).Scan(&parents); err != nil {
		return "", fmt.Errorf("read the rows of %s that were taken: %w", t.Parent.Name(), err)
	}
	return fmt.Sprintf("SELECT * FROM %s WHERE %s = ANY (%s::%s[]) LIMIT %d", t.QualifiedSource(), postgres.Ident(t.Via.Name), postgres.Literal(parents), t.Via.TypeName, rows), nil
}

func copyTable(ctx context.Context, from, to *pgx.Conn, t *layout.Table, query string) (int64, error) {
	columns := postgres.Idents("", layout.Names(t.Copied()))
	r, out := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := from.PgConn().CopyTo(ctx, out, fmt.Sprintf("COPY (SELECT %s FROM (%s) s) TO STDOUT", columns, query))
		sent <- errors.Join(err, out.CloseWithError(err))
	}()
	tag, err := to.PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY %s (%s) FROM STDIN", t.QualifiedSource(), columns))
	_ = r.CloseWithError(errors.New("nobody reads any more")) // lets the sender end
	if err := errors.Join(<-sent, err); err != nil {
		return 0, err
	}
	return tag.RowsAffected(), nil
}

// dropDangling removes rows that refer to rows which were not taken, again and again:
// removed ones may be referred to themselves.
func dropDangling(ctx context.Context, conn *pgx.Conn, l *layout.Layout) error {
	// Here types of extensions are compared, whose operators are in no system schema.
	if _, err := conn.Exec(ctx, "SET search_path TO DEFAULT"); err != nil {
		return err
	}
	statements, err := danglingSQL(ctx, conn, l)
	if err != nil {
		return err
	}
	for again := true; again; {
		again = false
		for _, sql := range statements {
			tag, err := conn.Exec(ctx, sql)
			if err != nil {
				return fmt.Errorf("drop rows that refer to nothing: %w", err)
			}
			again = again || tag.RowsAffected() > 0
		}
	}
	_, err = conn.Exec(ctx, "ANALYZE")
	return err
}

// danglingSQL is a DELETE for each foreign key between tables of the spec.
func danglingSQL(ctx context.Context, conn *pgx.Conn, l *layout.Layout) ([]string, error) {
	var tables []string
	for _, t := range l.Tables {
		tables = append(tables, t.QualifiedSource())
	}
	const sql = `SELECT format('%s', k.conrelid::regclass), format('%s', k.confrelid::regclass),
	array(SELECT quote_ident(a.attname) FROM unnest(k.conkey) WITH ORDINALITY u(n, o) JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY o),
	array(SELECT quote_ident(a.attname) FROM unnest(k.confkey) WITH ORDINALITY u(n, o) JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY o)
	FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0
	AND k.conrelid IN (SELECT to_regclass(t)::oid FROM unnest($1::text[]) t) AND k.confrelid IN (SELECT to_regclass(t)::oid FROM unnest($1::text[]) t) ORDER BY k.oid`
	rows, err := conn.Query(ctx, sql, tables)
	if err != nil {
		return nil, fmt.Errorf("read foreign keys: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var from, to string
		var columns, referred []string
		if err := r.Scan(&from, &to, &columns, &referred); err != nil {
			return "", err
		}
		var set, match []string
		for i := range columns {
			set = append(set, "c."+columns[i]+" IS NOT NULL")
			match = append(match, "p."+referred[i]+" = c."+columns[i])
		}
		return fmt.Sprintf("DELETE FROM %s c WHERE %s AND NOT EXISTS (SELECT FROM %s p WHERE %s)", from, strings.Join(set, " AND "), to, strings.Join(match, " AND ")), nil
	})
}
