package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ownRows are the rows of a file; their twins have higher ids.
const ownRows = "id < 1000"

// traits are what a writer must know of a table's columns.
type traits struct {
	inserted []string // all that are not computed
	updated  []string // those that are free to hold any value: no key, no identity ALWAYS
}

// traitsOf reads them; nil for a table without an id in its primary key, which is left
// alone.
func traitsOf(ctx context.Context, conn *pgx.Conn, t *table) (*traits, error) {
	if !slices.Contains(t.pk, "id") || t.everywhere() {
		return nil, nil
	}
	const sql = `SELECT attname::text, attidentity = 'a' FROM pg_attribute
	WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`
	rows, err := conn.Query(ctx, sql, t.oid)
	if err != nil {
		return nil, err
	}
	var out traits
	var name string
	var always bool
	_, err = pgx.ForEachRow(rows, []any{&name, &always}, func() error {
		out.inserted = append(out.inserted, name)
		if !always && name != t.key && !slices.Contains(t.pk, name) {
			out.updated = append(out.updated, name)
		}
		return nil
	})
	return &out, err
}

// twins are statements that make a twin of each of the file's own rows, then give every
// row the values of its neighbour, and take some twins away, at one place of a table.
func twins(t *table, tr *traits, relation string, offset int) []string {
	values := slices.Clone(tr.inserted)
	for i, c := range values {
		if values[i] = ident(c); c == "id" {
			values[i] = fmt.Sprintf("id + %d", offset)
		}
	}
	out := []string{fmt.Sprintf("INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE SELECT %[3]s FROM %[1]s WHERE %[4]s", relation, idents(tr.inserted), strings.Join(values, ", "), ownRows)}
	if len(tr.updated) > 0 {
		out = append(out, fmt.Sprintf(`UPDATE %[1]s AS a SET (%[2]s) = (SELECT %[2]s FROM %[1]s b WHERE b.id = n.next)
			FROM (SELECT id, coalesce(lead(id) OVER (ORDER BY id), min(id) OVER ()) AS next FROM %[1]s) n WHERE n.id = a.id`, relation, idents(tr.updated)))
	}
	return append(out, fmt.Sprintf("DELETE FROM %s WHERE id > %d AND id %% 4 = 0", relation, offset))
}

func idents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = ident(n)
	}
	return strings.Join(out, ", ")
}

// twinsOnSource writes on the source, moves of rows to another shard included.
func (r *run) twinsOnSource(offset int) error {
	return r.source.on(r.ctx, func(conn *pgx.Conn) error {
		for _, t := range r.tables {
			tr, err := traitsOf(r.ctx, conn, t)
			if err != nil {
				return err
			}
			if tr == nil {
				continue
			}
			relation := ident(t.schema, t.name)
			statements := twins(t, tr, relation, offset)
			if t.key != "" {
				statements = append(statements, fmt.Sprintf("UPDATE %[1]s AS a SET %[2]s = (SELECT %[2]s FROM %[1]s b WHERE b.id = n.next) FROM (SELECT id, lead(id) OVER (ORDER BY id) AS next FROM %[1]s) n WHERE n.id = a.id AND n.next IS NOT NULL AND a.id %% 3 = 0",
					relation, ident(t.key)))
			}
			for _, sql := range statements {
				if err := execute(r.ctx, conn, statement{sql: sql}); err != nil {
					return fmt.Errorf("%.200s: %w", sql, err)
				}
			}
		}
		return nil
	})
}

// twinsOnShards writes at each shard, as the application does after a cutover.
func (r *run) twinsOnShards(offset int) {
	r.t.Helper()
	all := map[*table]*traits{}
	must(r.t, r.source.on(r.ctx, func(conn *pgx.Conn) (err error) {
		for _, t := range r.tables {
			if all[t], err = traitsOf(r.ctx, conn, t); err != nil {
				return err
			}
		}
		return nil
	}))
	for shard := range shards {
		must(r.t, r.databases[shard*databases/shards].on(r.ctx, func(conn *pgx.Conn) error {
			for _, t := range r.tables {
				if all[t] == nil {
					continue
				}
				for _, sql := range twins(t, all[t], ident(t.schemaOf(shard), t.name), offset) {
					if err := execute(r.ctx, conn, statement{sql: sql}); err != nil {
						return fmt.Errorf("shard %d: %.200s: %w", shard, sql, err)
					}
				}
			}
			return nil
		}))
	}
}
