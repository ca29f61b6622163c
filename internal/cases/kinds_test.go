package cases

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// valueless are types of which no column can hold a value.
var valueless = map[string]string{
	"gtsvector":                    "a key of an index: nothing can be read into it",
	"pg_node_tree":                 "an expression of a catalog: nothing can be read into it",
	"pg_ndistinct":                 "a statistic: nothing can be read into it",
	"pg_dependencies":              "a statistic: nothing can be read into it",
	"pg_mcv_list":                  "a statistic: nothing can be read into it",
	"pg_brin_bloom_summary":        "a summary in an index: nothing can be read into it",
	"pg_brin_minmax_multi_summary": "a summary in an index: nothing can be read into it",
}

// Every type that the server has built in is that of a column of a file, with a value
// and with NULL, and so are arrays of it.
func TestTypesLeaveNoTypeOut(t *testing.T) {
	server := pgtest.NewCluster(t, pgtest.ClusterOptions{})
	held := map[string]bool{}
	for _, f := range typeFiles(t) {
		for _, name := range heldIn(t, server, f) {
			held[name] = true
		}
	}
	const builtIn = `SELECT t.typname::text, t.typarray <> 0 FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid
	WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm') AND e.oid IS NULL ORDER BY 1`
	conn := server.NewDatabase(t).Connect(t)
	rows, err := conn.Query(context.Background(), builtIn)
	must(t, err)
	var name string
	var arrays bool
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &arrays}, func() error {
		n++
		switch {
		case valueless[name] != "":
			return nil
		case !held[name]:
			t.Errorf("no file of testdata/types has a column of type %s with a value and a NULL", name)
		case arrays && !held[name+"[]"]:
			t.Errorf("no file of testdata/types has a column of arrays of %s with a value and a NULL", name)
		}
		return nil
	})
	must(t, err)
	if n < 60 {
		t.Errorf("the server has %d types, which cannot be all", n)
	}
}

// heldIn lists the types of columns that a file's setup fills with values and a NULL.
func heldIn(t *testing.T, server *pgtest.Cluster, f *file) (names []string) {
	t.Helper()
	ctx := context.Background()
	conn := server.NewDatabase(t).Connect(t)
	must(t, execute(ctx, conn, statement{sql: matrixSQL}))
	for _, s := range f.setup {
		if err := execute(ctx, conn, s); err != nil {
			t.Fatalf("%s: %.200s: %v", f.title, s.sql, err)
		}
	}
	const columns = `SELECT format('SELECT %L WHERE EXISTS (SELECT FROM %s WHERE num_nulls(%I) = 0) AND EXISTS (SELECT FROM %2$s WHERE num_nulls(%3$I) = 1)',
		CASE WHEN e.oid IS NULL THEN t.typname ELSE e.typname || '[]' END, a.attrelid::regclass, a.attname)
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.typarray = t.oid
	WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relnamespace = 'public'::regnamespace`
	rows, err := conn.Query(ctx, columns)
	must(t, err)
	queries, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, sql := range queries {
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", sql, err))
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		names = append(names, found...)
	}
	return names
}
