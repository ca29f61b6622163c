package doctor

import (
	"context"
	_ "embed" // the query
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed columns.sql
var columnsSQL string

// columns: each table has the source's columns and partitions at each of its places.
// After complete that holds only of tables that go on following the source.
func columns(ctx context.Context, e *Exam) error {
	if e.in(migrate.New, migrate.Aborted) {
		return nil
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		for _, t := range e.layout.Tables {
			if e.in(migrate.Completed) && !(t.Everywhere() && e.follows()) {
				continue
			}
			if err := e.columnsOf(ctx, t, name, conn); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *Exam) columnsOf(ctx context.Context, t *layout.Table, database string, conn *pgx.Conn) error {
	var names []string
	for _, loc := range e.layout.Locations(t, database) {
		names = append(names, e.layout.QualifiedTarget(t, loc))
	}
	have, err := readColumns(ctx, conn, names)
	if err != nil {
		return err
	}
	var faults, fixes []string
	for _, name := range names {
		f, sql := compareColumns(t, name, have[name])
		faults, fixes = append(faults, f...), append(fixes, sql...)
	}
	apart, err := partitionFaults(ctx, conn, t, names)
	if err != nil {
		return err
	}
	faults = append(faults, apart...)
	object := t.Name() + " on " + database
	if len(faults) == 0 {
		e.add(OK, "columns", object, "", "the source's %d columns, at %d places", len(t.Source.Columns), len(names))
		return nil
	}
	more := ""
	if len(faults) > 1 {
		more = fmt.Sprintf(", and %d more", len(faults)-1)
	}
	e.add(Broken, "columns", object, strings.Join(fixes, "\n"), "%s%s", faults[0], more)
	return nil
}

// partitionFaults compares how many partitions hold rows: rows that the source has a
// partition for would be refused elsewhere.
func partitionFaults(ctx context.Context, q postgres.Querier, t *layout.Table, names []string) ([]string, error) {
	if !t.Source.Partitioned() {
		return nil, nil
	}
	const sql = `SELECT r.name, count(p.relid) FILTER (WHERE p.isleaf) FROM unnest($1::text[]) r(name)
	LEFT JOIN LATERAL pg_partition_tree(to_regclass(r.name)) p ON true GROUP BY 1 ORDER BY 1`
	rows, err := q.Query(ctx, sql, names)
	if err != nil {
		return nil, fmt.Errorf("count partitions: %w", err)
	}
	var faults []string
	var name string
	var leaves int
	_, err = pgx.ForEachRow(rows, []any{&name, &leaves}, func() error {
		if leaves != len(t.Source.Leaves) {
			faults = append(faults, fmt.Sprintf("%s has %d partitions, the source %d", name, leaves, len(t.Source.Leaves)))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count partitions: %w", err)
	}
	return faults, nil
}

// column is one that a table has.
type column struct {
	name, typeName string
	generated      bool
}

func readColumns(ctx context.Context, q postgres.Querier, tables []string) (map[string][]column, error) {
	rows, err := q.Query(ctx, columnsSQL, tables)
	if err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	out := map[string][]column{}
	var table string
	var c column
	_, err = pgx.ForEachRow(rows, []any{&table, &c.name, &c.typeName, &c.generated}, func() error {
		out[table] = append(out[table], c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	return out, nil
}

// compareColumns words what a table lacks and has too much of, with the SQL that mends it.
func compareColumns(t *layout.Table, name string, have []column) (faults, fixes []string) {
	if len(have) == 0 {
		return []string{name + " is missing"}, nil
	}
	there := map[string]column{}
	for _, c := range have {
		there[c.name] = c
	}
	fault := func(sql, format string, args ...any) {
		faults, fixes = append(faults, name+" "+fmt.Sprintf(format, args...)), append(fixes, "ALTER TABLE "+name+" "+sql+";")
	}
	for _, c := range t.Source.Columns {
		is, found := there[c.Name]
		delete(there, c.Name)
		quoted := postgres.Ident(c.Name)
		switch {
		case !found && c.Generated:
			fault("ADD COLUMN "+quoted+" "+c.TypeName+" GENERATED ALWAYS AS ("+c.Default+") STORED", "lacks column %s", c.Name)
		case !found:
			fault("ADD COLUMN "+quoted+" "+c.TypeName+withDefault(c.Default, c.NotNull), "lacks column %s (%s)", c.Name, c.TypeName)
		case is.typeName != c.TypeName:
			fault("ALTER COLUMN "+quoted+" TYPE "+c.TypeName, "has column %s as %s, the source as %s", c.Name, is.typeName, c.TypeName)
		}
	}
	for _, c := range have {
		if _, left := there[c.name]; left && c.name != t.StoreAs {
			fault("DROP COLUMN "+postgres.Ident(c.name), "has column %s, which the source lacks", c.name)
		}
	}
	return faults, fixes
}

func withDefault(expression string, notNull bool) string {
	out := ""
	if expression != "" {
		out = " DEFAULT " + expression
	}
	if notNull {
		out += " NOT NULL"
	}
	return out
}
