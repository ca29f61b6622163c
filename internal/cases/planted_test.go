package cases

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// plantedEverywhere gives, for each column that is free to hold any value, one row at
// one shard the value of another row. Verify has to find exactly these, and a repair to
// mend them.
func plantedEverywhere(r *run) {
	planted := map[string]map[string]bool{} // table and id to columns
	for _, t := range r.tables {
		var tr *traits
		must(r.t, r.source.on(r.ctx, func(conn *pgx.Conn) (err error) {
			tr, err = traitsOf(r.ctx, conn, t)
			return err
		}))
		if tr != nil {
			r.plant(t, tr, planted)
		}
	}
	want := map[string]bool{}
	for row, columns := range planted {
		want[row+" "+strings.Join(slices.Sorted(maps.Keys(columns)), ",")] = true
	}
	if len(want) == 0 {
		return
	}
	got := r.foundByVerify()
	for line := range want {
		if !got[line] {
			r.t.Errorf("verify does not find %s", line)
		}
	}
	for line := range got {
		if !want[line] {
			r.t.Errorf("verify finds %s, which was not planted", line)
		}
	}
	r.code([]int{3}, "verify", "--repair", "--yes")
	r.mustBeLevel("after the repair")
	r.verified()
}

// foundByVerify is what verify says is different.
func (r *run) foundByVerify() map[string]bool {
	r.t.Helper()
	doc := r.code([]int{3}, "verify")
	out := map[string]bool{}
	found, _ := doc["differences"].([]any)
	for _, one := range found {
		d, _ := one.(map[string]any)
		name, key, columns := fmt.Sprint(d["table"]), fmt.Sprint(d["key"]), []string{}
		for _, t := range r.tables {
			if keys, ok := d["key"].([]any); ok && t.printed() == plain(name) {
				key = fmt.Sprint(keys[slices.Index(t.pk, "id")])
			}
		}
		list, _ := d["columns"].([]any)
		for _, c := range list {
			columns = append(columns, fmt.Sprint(c))
		}
		slices.Sort(columns)
		line := fmt.Sprintf("%s %s %s", plain(name), key, strings.Join(columns, ","))
		if d["kind"] != "different" {
			line = fmt.Sprint(d["kind"], " ", line)
		}
		out[line] = true
	}
	return out
}

// plant changes each free column somewhere, and notes where.
func (r *run) plant(t *table, tr *traits, planted map[string]map[string]bool) {
	r.t.Helper()
	left := map[string]bool{}
	for _, c := range tr.updated {
		left[c] = true
	}
	for shard := range shards {
		must(r.t, r.databases[shard*databases/shards].on(r.ctx, func(conn *pgx.Conn) error {
			const applier = "SET session_replication_role = replica; SELECT set_config('shardctl.applier', '%s', false)"
			if err := execute(r.ctx, conn, statement{sql: fmt.Sprintf(applier, r.migration)}); err != nil {
				return err
			}
			for c := range maps.Clone(left) {
				id, err := plantAt(r.ctx, conn, ident(t.schemaOf(shard), t.name), ident(c))
				if err != nil {
					return fmt.Errorf("plant a difference in %s of %s: %w", c, t.name, err)
				}
				if id == "" {
					continue
				}
				delete(left, c)
				row := t.printed() + " " + id
				if planted[row] == nil {
					planted[row] = map[string]bool{}
				}
				planted[row][c] = true
			}
			return nil
		}))
	}
	for c := range left {
		r.t.Errorf("%s.%s has one value only at each shard: nothing can be planted", t.name, c)
	}
}

// plantAt gives the first row that differs from another in a column that one's value.
func plantAt(ctx context.Context, conn *pgx.Conn, relation, column string) (id string, err error) {
	const sql = `WITH v AS MATERIALIZED (SELECT id, CASE WHEN num_nulls(%[2]s) = 0 THEN md5(format('%%s', %[2]s)) END AS hash FROM %[1]s),
	pair AS (SELECT a.id, b.id AS other FROM v a JOIN v b ON a.hash IS DISTINCT FROM b.hash ORDER BY 1, 2 LIMIT 1)
	UPDATE %[1]s AS t SET %[2]s = (SELECT %[2]s FROM %[1]s o WHERE o.id = pair.other) FROM pair WHERE t.id = pair.id RETURNING t.id::text`
	rows, err := conn.Query(ctx, fmt.Sprintf(sql, relation, column), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if len(ids) == 0 {
		return "", err
	}
	return ids[0], err
}

// printed is a table's name without the quotes that it may be printed with.
func (t *table) printed() string { return plain(t.schema + "." + t.name) }

func plain(name string) string { return strings.ReplaceAll(name, `"`, "") }
