package auditlog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// forwardSQL is the query, on the source, for one table of one batch. Each row
// is a key with one of the locations where it may have been (shardctl_old), the location
// where the row is now (shardctl_cur), and the row; a row that is gone has its key alone.
// A row is looked up in a lateral subquery that cannot be flattened, so that no plan
// ever reads a table as a whole: logs have no statistics.
func (p *plan) forwardSQL(t *tablePlan, e entries) string {
	if e.full[t.No] {
		return p.fullSQL(t, e)
	}
	q := &ctes{plan: p, entries: e, done: map[string]bool{}}
	known := q.known(t)
	return fmt.Sprintf("%sSELECT %s, coalesce(r.shardctl_cur, %d), %s\nFROM (SELECT * FROM %s ORDER BY %s) e LEFT JOIN LATERAL (%s WHERE %s OFFSET 0) r ON true",
		q.with(), p.oldLocation(t), nowhere, stagedColumns(t, "e"), known, inKeyOrder(t), p.currentRow(t), t.SamePK("r", "e"))
}

// inKeyOrder orders keys as the primary key's index does, or nearly: neighbours are found
// on one page, on both sides. Texts are ordered by their bytes, which costs a fraction.
func inKeyOrder(t *tablePlan) string {
	out := make([]string, len(t.PK))
	for i, c := range t.PK {
		out[i] = postgres.Ident(c.Name)
		if c.Collation != "" {
			out[i] += ` COLLATE pg_catalog."C"`
		}
	}
	return strings.Join(out, ", ")
}

// fullSQL reads a whole table: its parent was truncated.
func (p *plan) fullSQL(t *tablePlan, e entries) string {
	return fmt.Sprintf("SELECT r.shardctl_cur, r.shardctl_cur, %s FROM (%s) r", stagedColumns(t, "r"), p.currentRow(t))
}

// currentRow selects the rows of a table, aliased r, with their location.
func (p *plan) currentRow(t *tablePlan) string {
	cols := postgres.Idents("r", layout.Names(t.columns))
	if !t.keyed {
		return fmt.Sprintf("SELECT %d AS shardctl_cur, %s FROM %s r", p.only(t), cols, t.QualifiedSource())
	}
	joins, key := t.KeyFrom("r")
	none := nowhere
	if t.NoKey.Policy == "refuse" {
		none = refused
	}
	return fmt.Sprintf("SELECT coalesce(%s, %d) AS shardctl_cur, %s AS shardctl_key, %s FROM %s r%s",
		p.rowLocation(t, key), none, keyTyped(key, t.Family), cols, t.QualifiedSource(), joins)
}

// oldLocation is the SQL for where the row of a known key may have been. Most
// keys have not moved, which is seen without hashing twice. Only one row of a key
// has its old location equal to the current one: the others are more of the same.
func (p *plan) oldLocation(t *tablePlan) string {
	if !t.keyed {
		return fmt.Sprint(p.only(t))
	}
	return fmt.Sprintf("CASE WHEN e.shardctl_any THEN %d WHEN e.shardctl_key = r.shardctl_key THEN r.shardctl_cur ELSE coalesce(nullif(%s, r.shardctl_cur), %d) END",
		anywhere, p.rowLocation(t, "e.shardctl_key"), nowhere)
}

// stagedColumns are a row's columns as they are staged. The primary key of a row
// that is gone comes from the log, aliased key.
func stagedColumns(t *tablePlan, key string) string {
	pk := map[string]bool{}
	for _, c := range t.PK {
		pk[c.Name] = true
	}
	out := make([]string, len(t.columns))
	for i, c := range t.columns {
		out[i] = "r." + postgres.Ident(c.Name)
		if pk[c.Name] {
			out[i] = fmt.Sprintf("coalesce(%s, %s)", typed(out[i], c), typed(key+"."+postgres.Ident(c.Name), c))
		}
	}
	if t.StoreAs != "" {
		out = append(out, fmt.Sprintf("(r.shardctl_key)::%s", t.Key.TypeName))
	}
	return strings.Join(out, ", ")
}

// ctes collects the common table expressions that a table's known keys need: its
// own and those of the chain to its key.
type ctes struct {
	plan    *plan
	entries entries
	parts   []string
	done    map[string]bool
}

func (q *ctes) with() string {
	return "WITH " + strings.Join(q.parts, ",\n") + "\n"
}

func (q *ctes) add(name, sql string) {
	q.parts = append(q.parts, name+" AS ("+sql+")")
	q.done[name] = true
}

// known names the expression with the primary keys of a table that the batch
// touches, and for each the shard keys by which it may have been placed: shardctl_key, or
// shardctl_any where that is unknown.
func (q *ctes) known(t *tablePlan) string {
	name := fmt.Sprintf("known_%d", t.No)
	switch {
	case q.done[name]:
	case !t.keyed:
		q.add(name, fmt.Sprintf("SELECT DISTINCT %s FROM (%s) l", postgres.Idents("l", t.PKNames()), q.plan.fromLog(t, q.entries)))
	case !t.Derived():
		pk := postgres.Idents("l", t.PKNames())
		q.add(name, fmt.Sprintf("SELECT DISTINCT %s, l.shardctl_place AS shardctl_key, l.shardctl_any FROM (%s) l", pk, q.plan.fromLog(t, q.entries)))
	default:
		q.derived(name, t)
	}
	return name
}

// derived adds a derived table's keys: those of its own entries and those of the
// children of rows that left their place; each with all keys that the parents it
// names had in this batch and have now.
func (q *ctes) derived(name string, t *tablePlan) {
	up, pairs := q.parents(t), q.pairs(t)
	parentPK := postgres.Ident(t.Parent.PK[0].Name)
	refers := func(alias, pair string) string {
		return fmt.Sprintf("%s.%s %s %s.shardctl_place", alias, parentPK, viaEqual(t.Table), pair)
	}
	// A full join is never a nested loop, whatever the planner thinks of entries
	// without statistics; the subquery keeps it from becoming another join.
	hits := fmt.Sprintf("hits_%d", t.No)
	first := postgres.Ident(t.PK[0].Name)
	q.add(hits, fmt.Sprintf("SELECT * FROM (SELECT q.*, k.shardctl_key, k.shardctl_any AS shardctl_parent_any, k.%s IS NOT NULL AS shardctl_hit FROM %s q FULL JOIN %s k ON %s OFFSET 0) x WHERE x.%s IS NOT NULL",
		parentPK, pairs, up, refers("k", "q"), first))
	joins, key := t.Parent.KeyFrom("p")
	table := t.Parent.QualifiedSource()
	q.add(name, fmt.Sprintf(`SELECT %[1]s, q.shardctl_key, q.shardctl_parent_any OR q.shardctl_any AS shardctl_any FROM %[2]s q WHERE q.shardctl_hit
 UNION SELECT %[1]s, p.shardctl_key, q.shardctl_any FROM %[3]s q CROSS JOIN LATERAL (SELECT %[4]s AS shardctl_key FROM %[5]s p%[6]s WHERE %[7]s OFFSET 0) p
 UNION SELECT %[1]s, %[8]s, q.shardctl_any OR q.shardctl_place IS NOT NULL FROM %[2]s q WHERE NOT q.shardctl_hit AND NOT EXISTS (SELECT FROM %[5]s p WHERE %[7]s OFFSET 0)`,
		postgres.Idents("q", t.PKNames()), hits, pairs, keyTyped(key, t.Family), table, joins, refers("p", "q"), keyTyped("NULL", t.Family)))
}

// parents names the expression with the keys that the parents of a derived table had.
// A parent that came in this batch gave its children none before, and one that went
// none afterwards: where rows without a key have a shard, that is where they were, and
// where a chunk that was read between two ticks has brought them.
func (q *ctes) parents(t *tablePlan) string {
	parent := q.plan.of(t.Parent)
	known := q.known(parent)
	if !keylessHaveShard(t.Table) {
		return known
	}
	name := fmt.Sprintf("parents_%d", t.No)
	pk := postgres.Idents("l", parent.PKNames())
	q.add(name, fmt.Sprintf("SELECT * FROM %s UNION ALL SELECT %s, %s, false FROM (%s) l", known, pk, keyTyped("NULL", t.Family), q.plan.cameOrWent(parent, q.entries)))
	return name
}

// keylessHaveShard reports whether rows of a table, or of one derived from it, have a
// shard when they have no key.
func keylessHaveShard(t *layout.Table) bool {
	return slices.ContainsFunc(append(t.Descendants(), t), func(d *layout.Table) bool { return d.NoKey.Policy == "shard" })
}

// pairs names the expression with a derived table's touched keys and the parents
// (shardctl_place) that each names or named.
func (q *ctes) pairs(t *tablePlan) string {
	name := fmt.Sprintf("pairs_%d", t.No)
	if !q.done[name] {
		q.add(name, fmt.Sprintf("SELECT DISTINCT * FROM (%s\n UNION ALL %s) l", q.plan.fromLog(t, q.entries), q.children(t, true)))
	}
	return name
}

// left names the expression with the keys of rows whose children must be read again.
func (q *ctes) left(t *tablePlan) string {
	name := fmt.Sprintf("left_%d", t.No)
	if q.done[name] {
		return name
	}
	sql := q.plan.leftPlace(t, q.entries)
	if t.Derived() {
		sql += "\n UNION ALL " + q.children(t, false)
	}
	q.add(name, "SELECT DISTINCT * FROM ("+sql+") l")
	return name
}

// children selects the rows of a derived table whose parents have left their place.
func (q *ctes) children(t *tablePlan, places bool) string {
	left := q.left(q.plan.of(t.Parent))
	cols := make([]string, len(t.PK))
	for i, c := range t.PK {
		cols[i] = typed("c."+postgres.Ident(c.Name), c) + " AS " + postgres.Ident(c.Name)
	}
	inner := postgres.Idents("r", t.PKNames())
	via := "r." + postgres.Ident(t.Via.Name)
	out := strings.Join(cols, ", ")
	if places {
		out += ", c.shardctl_place, false"
	}
	return fmt.Sprintf("SELECT %s FROM %s m CROSS JOIN LATERAL (SELECT %s, %s AS shardctl_place FROM %s r WHERE m.%s %s %s OFFSET 0) c",
		out, left, inner, via, t.QualifiedSource(), postgres.Ident(t.Parent.PK[0].Name), viaEqual(t.Table), via)
}
