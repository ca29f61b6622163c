package cases

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed tables.sql
var tablesSQL string

// table is a migrated table of a case.
type table struct {
	oid            uint32
	schema, name   string
	columns, types []string
	pk, parents    []string

	key    string // its own key column, or
	parent *table // the table that its key is looked up through
	via    string
	// neither: it exists everywhere
}

func (t *table) everywhere() bool { return t.key == "" && t.parent == nil }

func ident(names ...string) string { return pgx.Identifier(names).Sanitize() }

// readTables reads the source's tables and how each is split: by the column that the
// case names, one of that name, or through a foreign key to a table that is split. A
// table that has no primary key and is not named is left alone.
func readTables(ctx context.Context, source place, f *file) (out []*table, err error) {
	err = source.on(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, tablesSQL)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (*table, error) {
			t := &table{}
			return t, r.Scan(&t.oid, &t.schema, &t.name, &t.columns, &t.types, &t.pk, &t.parents)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the source's tables: %w", err)
	}
	named, columns := keysOf(f.key)
	out = slices.DeleteFunc(out, func(t *table) bool { return len(t.pk) == 0 && named[t.name] == "" })
	for _, t := range out {
		if t.key = named[t.name]; t.key != "" {
			continue
		}
		for _, c := range columns {
			if slices.Contains(t.columns, c) && t.key == "" {
				t.key = c
			}
		}
	}
	for range out { // chains
		for _, t := range out {
			t.lookUp(out)
		}
	}
	return out, nil
}

func (t *table) lookUp(all []*table) {
	if !t.everywhere() {
		return
	}
	for _, p := range t.parents {
		oid, via, _ := strings.Cut(p, " ")
		for _, other := range all {
			if strconv.FormatUint(uint64(other.oid), 10) == oid && !other.everywhere() && len(other.pk) == 1 {
				t.parent, t.via = other, via
				return
			}
		}
	}
}

// keysOf reads "a.x, b.x" or "both tables: x".
func keysOf(text string) (named map[string]string, columns []string) {
	named = map[string]string{}
	if _, column, ok := strings.Cut(text, "tables:"); ok {
		return named, []string{strings.TrimSpace(column)}
	}
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' && !strings.Contains(text, `"`) }) {
		parts := identifiers(strings.TrimSpace(item))
		if len(parts) < 2 {
			continue
		}
		column := parts[len(parts)-1]
		named[parts[len(parts)-2]] = column
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	return named, columns
}

// identifiers cuts a dotted name, with quotes, into its parts.
func identifiers(text string) (parts []string) {
	var b strings.Builder
	in := false
	for _, r := range text {
		switch {
		case r == '"':
			in = !in
		case r == '.' && !in:
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteRune(r)
		}
	}
	return append(parts, b.String())
}

const (
	shards    = 4
	databases = 2
)

// schemaOf is where a table's rows of a shard live.
func (t *table) schemaOf(shard int) string {
	if t.everywhere() {
		return t.schema
	}
	return fmt.Sprintf("s_%d", shard)
}

// specOf writes the spec; keys stands beside each key, more are lines at its end.
func specOf(migration string, tables []*table, topology, keys string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nmigration: %s\nsource: {dsn: \"${SOURCE_DSN}\"}\ndatabases:\n", migration)
	for i := range databases {
		fmt.Fprintf(&b, "  db%d: {dsn: \"${DB%d_DSN}\"}\n", i, i)
	}
	fmt.Fprintf(&b, "shards: {count: %d, schema: \"s_%%d\", hash: postgres, placement: {db0: 0-1, db1: 2-3}}\ntables:\n", shards)
	for _, t := range tables {
		name := yamlText(t.qualified())
		switch {
		case t.key != "":
			fmt.Fprintf(&b, "  - {name: %s, key: %s%s}\n", name, yamlText(t.key), keys)
		case t.parent != nil:
			fmt.Fprintf(&b, "  - {name: %s, key: {from: %s, via: %s}}\n", name, yamlText(t.parent.qualified()), yamlText(t.via))
		default:
			fmt.Fprintf(&b, "  - {name: %s, everywhere: true}\n", name)
		}
	}
	fmt.Fprintf(&b, "topology: [{driver: file, path: %s}]\n", yamlText(topology))
	for _, m := range more {
		b.WriteString(m + "\n")
	}
	return b.String()
}

// qualified is a table's name as a spec has it.
func (t *table) qualified() string { return ident(t.schema) + "." + ident(t.name) }

func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
