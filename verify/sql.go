package verify

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// builder writes this package's SQL over user tables and logs. A row's alias is a,
// those of its parents a_p1, a_p2 and so on, a wanted key's is k.
type builder struct {
	layout  *layout.Layout
	digests digester
}

// place is one location of a table on a database.
type place struct {
	migrate.Location
	ord    int    // unique over all databases, from 1
	table  string // quoted
	shards []int  // those whose rows stand there; nil for an everywhere table
}

// scanSource selects hash and digest of the rows that are to be copied.
func (b builder) scanSource(t *layout.Table, heap, where string) string {
	joins, condition := "", where
	if t.NoKey.Policy == "skip" && b.layout.Spec.Shards.Count > 1 {
		var key string
		joins, key = t.KeyFrom("a")
		condition += " AND " + key + " IS NOT NULL"
	}
	return fmt.Sprintf("SELECT %s, %s FROM ONLY %s AS a%s WHERE %s", b.keyOf(t), b.digests.row("a", t.Copied(), "0"), heap, joins, condition)
}

// scanTarget selects hash and digest of the rows at a place. A row that does not
// belong there, by its own key or its parents' at the same place, or whose stored
// key is not its parent's, gets another digest, so that no row of the source equals it.
func (b builder) scanTarget(t *layout.Table, p place, heap, where string) string {
	belongs, joins := b.belongs(t, p)
	seed := "0"
	if belongs != "" {
		seed = fmt.Sprintf("CASE WHEN %s THEN 0 ELSE %d END", belongs, p.ord)
	}
	return fmt.Sprintf("SELECT %s, %s FROM ONLY %s AS a%s WHERE %s", b.keyOf(t), b.digests.row("a", t.Copied(), seed), heap, joins, where)
}

// belongs is the condition, never true by accident of a NULL, that row a is at its
// place; "" where every row belongs.
func (b builder) belongs(t *layout.Table, p place) (condition, joins string) {
	if t.Everywhere() {
		return "", ""
	}
	joins, key := b.chain(t, p.Schema)
	var conditions []string
	if shard := b.layout.ShardSQL(t, key); b.layout.Spec.Shards.Count > 1 {
		conditions = append(conditions, fmt.Sprintf("%s = ANY ('{%s}'::int[])", shard, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.shards)), ","), "[]")))
	}
	if t.StoreAs != "" {
		conditions = append(conditions, "a."+postgres.Ident(t.StoreAs)+" IS NOT DISTINCT FROM "+key)
	}
	if len(conditions) == 0 {
		return "", ""
	}
	return strings.Join(conditions, " AND "), joins
}

// storedKey is the text of a stored key, given as an expression.
func storedKey(t *layout.Table, key string) string {
	if t.StoreAs == "" {
		return "NULL::text"
	}
	return key + "::text"
}

// chain joins a row on a database with its parents at the same place. It never
// trusts a stored key, which is one of the things to be checked.
func (b builder) chain(t *layout.Table, schema string) (joins, key string) {
	if t.Key == nil {
		return "", "NULL"
	}
	var out strings.Builder
	row := "a"
	for depth := 1; t.Parent != nil; depth++ {
		next := fmt.Sprintf("a_p%d", depth)
		fmt.Fprintf(&out, " LEFT JOIN %s AS %s ON %s", postgres.Table(schema, t.Parent.TargetName()), next, t.RefersTo(row, next))
		t, row = t.Parent, next
	}
	return out.String(), row + "." + postgres.Ident(t.Key.Name)
}

// parents is an array of text with the keys of row a's parents, the nearest first.
func parents(t *layout.Table) string {
	if t.Key == nil || t.Parent == nil {
		return "NULL::text[]"
	}
	var keys []string
	row := "a"
	for depth := 1; t.Parent != nil; depth++ {
		keys = append(keys, name(row, *t.Via)+"::text")
		t, row = t.Parent, fmt.Sprintf("a_p%d", depth)
	}
	return "ARRAY[" + strings.Join(keys, ", ") + "]"
}

// shard is the expression of a key's shard; NULL where a table has none.
func (b builder) shard(t *layout.Table, key string) string {
	if t.Key == nil && b.layout.Spec.Shards.Count > 1 || t.Everywhere() {
		return "NULL"
	}
	return b.layout.ShardSQL(t, key)
}

func (b builder) keyOf(t *layout.Table) string { return b.digests.key(pkOf(t, "a"), t.PK) }

// findKeys selects hash and primary key, as text, of rows whose hash is among $1.
func (b builder) findKeys(t *layout.Table, heap, where string) string {
	return fmt.Sprintf("SELECT %[1]s, %[2]s FROM ONLY %[3]s AS a WHERE %[4]s AND %[1]s = ANY ($1::bigint[])", b.keyOf(t), keyText(pkOf(t, "a")), heap, where)
}

// wanted is the CTE k of keys that are given as one array of text a key column,
// from parameter number first on.
func wanted(t *layout.Table, first int) string {
	n := len(t.PK)
	params, names, casts := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range t.PK {
		params[i] = fmt.Sprintf("$%d::text[]", first+i)
		names[i] = fmt.Sprintf("c%d", i+1)
		casts[i] = fmt.Sprintf("u.c%d::%s AS c%d", i+1, c.TypeName, i+1)
	}
	return fmt.Sprintf("k AS MATERIALIZED (SELECT u.ord, %s FROM unnest(%s) WITH ORDINALITY AS u(%s, ord))",
		strings.Join(casts, ", "), strings.Join(params, ", "), strings.Join(names, ", "))
}

// lookup selects the rows of wanted keys: ord, place, key, digests, shard, the shard
// key that is stored or, on the source, should be, parents. Thorough compares column
// by column.
func (b builder) lookup(t *layout.Table, places []place, thorough bool) string {
	digests := "ARRAY[" + b.digests.row("a", t.Copied(), "0") + "]"
	if thorough {
		digests = b.digests.columns("a", t.Copied())
	}
	const branch = "SELECT k.ord, %d, %s, %s, (%s)::int, %s, %s FROM k JOIN %s AS a ON %s%s"
	if places == nil {
		joins, key := t.KeyFrom("a")
		return "WITH " + wanted(t, 1) + " " + fmt.Sprintf(branch, 0, keyText(pkOf(t, "a")), digests, b.shard(t, key), storedKey(t, key), parents(t),
			t.QualifiedSource(), samePK(t, "a", "k", "c"), joins)
	}
	branches := make([]string, len(places))
	for i, p := range places {
		joins, key := b.chain(t, p.Schema)
		branches[i] = fmt.Sprintf(branch, p.ord, keyText(pkOf(t, "a")), digests, b.shard(t, key), storedKey(t, "a."+postgres.Ident(t.StoreAs)), parents(t),
			p.table, samePK(t, "a", "k", "c"), joins)
	}
	return "WITH " + wanted(t, 1) + " " + strings.Join(branches, " UNION ALL ")
}

// touched selects the ords of wanted keys, from $2 on, that have a log entry which
// the position $1 does not cover; all of them if the table was truncated since. Running
// says that transactions were running at the position.
func (b builder) touched(t *layout.Table, running bool) string {
	n := len(t.PK)
	columns := "l.op, " + logColumns("l", "o", n) + ", " + logColumns("l", "n", n)
	return "WITH " + wanted(t, 2) + ", e AS MATERIALIZED (" + b.beyond(t, columns, running) + `)
SELECT k.ord FROM k JOIN e ON ` + samePK(t, "k", "e", "o") + ` UNION
SELECT k.ord FROM k JOIN e ON ` + samePK(t, "k", "e", "n") + ` UNION
SELECT k.ord FROM k WHERE EXISTS (SELECT FROM e WHERE e.op = 'T')`
}

// beyond selects log entries that the position $1 does not cover, by the index on xid.
func (b builder) beyond(t *layout.Table, columns string, running bool) string {
	var parts []string
	for segment := range logschema.Segments {
		log := b.log(t, segment)
		parts = append(parts, fmt.Sprintf("SELECT %s FROM %s AS l WHERE %s", columns, log, behind))
		if running {
			parts = append(parts, fmt.Sprintf("SELECT %s FROM %s AS l WHERE %s", columns, log, among))
		}
	}
	return strings.Join(parts, " UNION ALL ")
}

const (
	// behind is the condition that an entry's transaction began after position $1,
	behind = "l.xid >= pg_snapshot_xmax($1::text::pg_snapshot)"
	// among that it was running at it.
	among = "l.xid >= pg_snapshot_xmin($1::text::pg_snapshot) AND l.xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))"
	// rotated is whether the logs of migration $1's tables $2 may have lost an entry beyond
	// position $3: one whose transaction a low-water mark covers and the position does not,
	// that was running then, or is from the position's end up to the mark's.
	rotated = `EXISTS (SELECT FROM shardctl.low_water w, (SELECT $3::text::pg_snapshot AS s) r WHERE w.migration = $1 AND w.table_no = ANY ($2)
	AND (EXISTS (SELECT FROM pg_snapshot_xip(r.s) AS x WHERE pg_visible_in_snapshot(x, w.snapshot))
	OR pg_snapshot_xmax(w.snapshot)::text::numeric - pg_snapshot_xmax(r.s)::text::numeric
	 > (SELECT count(*) FROM pg_snapshot_xip(w.snapshot) AS x WHERE x >= pg_snapshot_xmax(r.s))))`
)

// askRotated asks, behind what a batch reads of tables' logs beyond a position, whether
// entries were taken out of them. A rotation leaves its mark in the transaction that
// empties a segment, and a statement sees what was committed when it begins: where
// entries were gone, their mark is there.
func (b builder) askRotated(batch *pgx.Batch, tables []*layout.Table, from string, lost *bool) {
	batch.Queue("SELECT "+rotated, b.layout.Spec.Migration, numbers(tables), from).QueryRow(func(row pgx.Row) error { return row.Scan(lost) })
}

func numbers(tables []*layout.Table) []int {
	out := make([]int, len(tables))
	for i, t := range tables {
		out[i] = t.No
	}
	return out
}

// busy selects, of tables given by their place from 0, those whose log has an entry
// beyond position $1. The order makes the planner use the index: logs are never
// analyzed, and without it all of one might be read.
func (b builder) busy(tables []*layout.Table, running bool) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		var logs []string
		for segment := range logschema.Segments {
			conditions := []string{behind}
			if running {
				conditions = append(conditions, among)
			}
			for _, condition := range conditions {
				logs = append(logs, fmt.Sprintf("(SELECT true FROM %s AS l WHERE %s ORDER BY l.xid LIMIT 1)", b.log(t, segment), condition))
			}
		}
		parts[i] = fmt.Sprintf("SELECT %d WHERE %s", i, strings.Join(logs, " OR "))
	}
	return strings.Join(parts, " UNION ALL ")
}

// entries selects a page of a segment's entries beyond position $1 that snapshot $2
// sees, behind entry ($3, $4): xid, seq, op, whether children may have moved, and
// hash and text of the old and of the new key. Running selects those of transactions
// that were running at the position, else those of later ones.
func (b builder) entries(t *layout.Table, segment int, running bool, limit int) string {
	n := len(t.PK)
	side := func(prefix string) string {
		expressions := make([]string, n)
		for i := range expressions {
			expressions[i] = fmt.Sprintf("l.%s%d", prefix, i+1)
		}
		return fmt.Sprintf("CASE WHEN l.%[1]s1 IS NOT NULL THEN %[2]s END, CASE WHEN l.%[1]s1 IS NOT NULL THEN %[3]s END",
			prefix, b.digests.key(expressions, t.PK), keyText(expressions))
	}
	moved := "false"
	if len(t.Children) > 0 && b.layout.Spec.Shards.Count > 1 {
		moved = "(l.okey IS DISTINCT FROM l.nkey)"
		if t.Derived() {
			moved = "(l.ovia IS DISTINCT FROM l.nvia)"
		}
		moved = "(l.op <> 'R' AND " + moved + ")"
	}
	window := behind
	if running {
		window = among
	}
	return fmt.Sprintf(`SELECT l.xid::text, l.seq, l.op::text, %s, %s, %s FROM %s AS l
WHERE %s AND pg_visible_in_snapshot(l.xid, $2::text::pg_snapshot) AND (l.xid, l.seq) > ($3::text::xid8, $4::bigint) ORDER BY l.xid, l.seq LIMIT %d`,
		moved, side("o"), side("n"), b.log(t, segment), window, limit)
}

// childKeys selects the keys of rows, on the source, whose parents are among $1.
func childKeys(t *layout.Table) string {
	equal := "OPERATOR(pg_catalog.=)"
	if t.Via.BaseType == t.Parent.PK[0].BaseType {
		equal = t.Parent.Source.KeyEqual[0]
	}
	return fmt.Sprintf("SELECT DISTINCT %s FROM unnest($1::text[]) AS u(parent) JOIN %s AS a ON %s %s u.parent::%s",
		keyText(pkOf(t, "a")), t.QualifiedSource(), name("a", *t.Via), equal, t.Via.TypeName)
}

func (b builder) log(t *layout.Table, segment int) string {
	return postgres.Table(logschema.Schema, logschema.Log(b.layout.Spec.Migration, t.No, segment))
}

// pageKeys selects the keys of all rows on page $1 of a heap.
func pageKeys(t *layout.Table, heap, where string) string {
	return fmt.Sprintf("SELECT %s FROM ONLY %s AS a WHERE %s", keyText(pkOf(t, "a")), heap, where)
}

// nextKeys selects the keys of up to limit rows that follow the key whose first
// column is $1, in the order of the primary key.
func nextKeys(t *layout.Table, table string, limit int) string {
	// The order of a type has its operators where its equality is.
	after := strings.Replace(t.Source.KeyEqual[0], ".=)", ".>=)", 1)
	return fmt.Sprintf("SELECT %s FROM %s AS a WHERE %s %s $1::text::%s ORDER BY %s LIMIT %d",
		keyText(pkOf(t, "a")), table, name("a", t.PK[0]), after, t.PK[0].TypeName, strings.Join(pkOf(t, "a"), ", "), limit)
}

// pages is the condition that a row is on pages from up to (not with) to; open-ended
// if to is negative. PostgreSQL reads a range of TIDs as such since version 14; before
// it needs each TID, and last is the relation's last page.
func pages(ranges bool, from, to, last int64) string {
	if !ranges {
		if to < 0 {
			to = last + 1
		}
		// A page of 8 kB holds at most 291 rows, one of 32 kB four times as many.
		return fmt.Sprintf(`a.ctid = ANY (ARRAY(SELECT ('(' || p || ',' || i || ')')::tid
FROM generate_series(%d, %d) AS p, generate_series(1, current_setting('block_size')::int / 28) AS i))`, from, to-1)
	}
	if to < 0 {
		return fmt.Sprintf("a.ctid >= '(%d,0)'::tid", from)
	}
	return fmt.Sprintf("a.ctid >= '(%d,0)'::tid AND a.ctid < '(%d,0)'::tid", from, to)
}

// pkOf are the primary key's columns of a row.
func pkOf(t *layout.Table, alias string) []string { return columnsOf(t.PK, alias) }

func columnsOf(columns []catalog.Column, alias string) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = name(alias, c)
	}
	return out
}

// keyText is a key as an array of text, which casts back to an equal key.
func keyText(expressions []string) string {
	out := make([]string, len(expressions))
	for i, e := range expressions {
		out[i] = e + "::text"
	}
	return "ARRAY[" + strings.Join(out, ", ") + "]"
}

// logColumns are the old or the new key of a log entry.
func logColumns(alias, prefix string, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s.%s%d", alias, prefix, i+1)
	}
	return strings.Join(out, ", ")
}

// samePK is the condition that a row, or key, of which the columns have their own
// names or those of k, has the key of another whose columns are prefix1, prefix2, …
func samePK(t *layout.Table, row, other, prefix string) string {
	out := make([]string, len(t.PK))
	for i, c := range t.PK {
		column := name(row, c)
		if row == "k" {
			column = fmt.Sprintf("k.c%d", i+1)
		}
		out[i] = fmt.Sprintf("%s %s %s.%s%d", column, t.Source.KeyEqual[i], other, prefix, i+1)
	}
	return strings.Join(out, " AND ")
}
