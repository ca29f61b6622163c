package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// rowsOf reads the rows of a table as text, column by column, floats by their bits, all
// else as its type writes it: a cast may drop what it likes (char its blanks). Long
// values stand for themselves by their length and hash.
func rowsOf(ctx context.Context, conn *pgx.Conn, t *table, relation string) ([]string, error) {
	parts := make([]string, len(t.columns))
	for i, c := range t.columns {
		value := fmt.Sprintf("CASE WHEN num_nulls(%[1]s) = 0 THEN format('%%s', %[1]s) END", ident(c))
		switch t.types[i] {
		case "double precision":
			value = "encode(float8send(" + ident(c) + "), 'hex')"
		case "real":
			value = "encode(float4send(" + ident(c) + "), 'hex')"
		case "text", "bytea": // as they are: a copy of 100 MB in hex is slow
			value = ident(c)
		}
		// OFFSET 0 keeps the server from working out a value of 100 MB for each mention of it.
		parts[i] = fmt.Sprintf(`(SELECT CASE WHEN v IS NULL THEN 'NULL' WHEN octet_length(v) > 300 THEN octet_length(v) || ' ' || md5(v) ELSE quote_literal(v) END FROM (SELECT %s AS v OFFSET 0) x)`, value)
	}
	// Texts of many columns are put together by the client: a function takes 100 arguments.
	sql := fmt.Sprintf("SELECT ARRAY[%s]::text[] FROM %s", strings.Join(parts, ","), relation)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", relation, err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var values []string
		err := r.Scan(&values)
		return strings.Join(values, ", "), err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", relation, err)
	}
	return out, nil
}

// keySQL is the shard key of a row of a table that stands in a schema under an alias.
func (t *table) keySQL(alias string, schema string) string {
	if t.key != "" {
		return alias + "." + ident(t.key)
	}
	next := alias + "p"
	return fmt.Sprintf("(SELECT %s FROM %s AS %s WHERE %s.%s = %s.%s)",
		t.parent.keySQL(next, schema), ident(schema, t.parent.name), next, next, ident(t.parent.pk[0]), alias, ident(t.via))
}

func (t *table) keyType() string {
	for t.key == "" {
		t = t.parent
	}
	return t.types[slices.Index(t.columns, t.key)]
}

// differs compares all tables of both sides; "" if they are equal and every row is
// where its key belongs.
func (r *run) differs(ctx context.Context) (string, error) {
	for _, t := range r.tables {
		verdict, err := r.tableDiffers(ctx, t)
		if err != nil {
			return "", err
		}
		if verdict != "" {
			return t.name + ": " + verdict, nil
		}
	}
	return "", nil
}

func (r *run) tableDiffers(ctx context.Context, t *table) (string, error) {
	var want []string
	err := r.source.on(ctx, func(conn *pgx.Conn) (err error) {
		want, err = rowsOf(ctx, conn, t, "ONLY "+ident(t.schema, t.name))
		if err == nil && len(want) == 0 {
			want, err = rowsOf(ctx, conn, t, ident(t.schema, t.name)) // a partitioned one
		}
		return err
	})
	if err != nil {
		return "", err
	}
	var got []string
	for i, db := range r.databases {
		err := db.on(ctx, func(conn *pgx.Conn) error {
			if t.everywhere() {
				copied, err := rowsOf(ctx, conn, t, ident(t.schema, t.name))
				if verdict := unlike(want, copied); err == nil && verdict != "" {
					err = fmt.Errorf("the copy on %s: %s", db.name, verdict)
				}
				return err
			}
			for shard := i * shards / databases; shard < (i+1)*shards/databases; shard++ {
				rows, err := rowsOf(ctx, conn, t, ident(t.schemaOf(shard), t.name))
				if err != nil {
					return err
				}
				got = append(got, rows...)
				if err := misplaced(ctx, conn, t, shard); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err.Error(), nil
		}
	}
	if t.everywhere() {
		return "", nil
	}
	return unlike(want, got), nil
}

// misplaced asks the server whether rows stand at a shard that is not their key's.
func misplaced(ctx context.Context, conn *pgx.Conn, t *table, shard int) error {
	const make = `CREATE TEMP TABLE IF NOT EXISTS key_%[1]d (k %[2]s) PARTITION BY HASH (k)`
	if err := execute(ctx, conn, statement{sql: fmt.Sprintf(make, t.oid, t.keyType())}); err != nil {
		return err
	}
	var n int
	schema := t.schemaOf(shard)
	sql := fmt.Sprintf("SELECT count(*) FROM %s AS r WHERE satisfies_hash_partition('pg_temp.key_%d'::regclass, %d, %d, %s) IS NOT TRUE",
		ident(schema, t.name), t.oid, shards, shard, t.keySQL("r", schema))
	if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if n > 0 {
		return fmt.Errorf("%d rows in %s belong elsewhere", n, schema)
	}
	return nil
}

// unlike names the first row that one side has more often than the other.
func unlike(want, got []string) string {
	counts := map[string]int{}
	for _, row := range want {
		counts[row]++
	}
	for _, row := range got {
		counts[row]--
	}
	var wrong []string
	for row, n := range counts {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("missing %.300s", row))
		} else if n < 0 {
			wrong = append(wrong, fmt.Sprintf("not on the source: %.300s", row))
		}
	}
	slices.Sort(wrong)
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%d rows differ (%d and %d): %s", len(wrong), len(want), len(got), strings.Join(wrong[:min(3, len(wrong))], "; "))
}
