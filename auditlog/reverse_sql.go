package auditlog

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/postgres"
)

// reverseSQL is the query, on a database, for one table of one batch at some of
// its places. Each row is a touched key: the location it was touched at (shardctl_old), the
// same if the row is there, else nowhere (shardctl_cur), the parents that its entries
// named, and the row.
func (p *plan) reverseSQL(t *tablePlan, e entries, all, at []spot, truncated map[int]bool) string {
	var parts []string
	for _, s := range at {
		parts = append(parts, p.reverseAt(t, s))
		if truncated[s.loc] {
			parts = append(parts, p.reverseWhole(t, s))
		}
	}
	return fmt.Sprintf("WITH k AS MATERIALIZED (%s)\n%s", p.touchedKeys(t, e, all), strings.Join(parts, "\nUNION ALL "))
}

func vias(t *tablePlan) bool { return t.keyed && t.Derived() }

// reverseAt reads the touched keys of one place.
func (p *plan) reverseAt(t *tablePlan, s spot) string {
	names := ""
	if vias(t) {
		names = "k.shardctl_vias, "
	}
	cols := strings.ReplaceAll(stagedSource(t, "k"), "\n", " ")
	return fmt.Sprintf("SELECT %[1]d AS shardctl_old, CASE WHEN r.shardctl_there THEN %[1]d ELSE %[2]d END AS shardctl_cur, %[3]s%[4]s FROM k LEFT JOIN LATERAL (SELECT true AS shardctl_there, r.* FROM %[5]s r WHERE %[6]s OFFSET 0) r ON true WHERE k.shardctl_loc = %[7]s",
		s.loc, nowhere, names, cols, s.table, t.SamePK("r", "k"), postgres.Literal(s.name))
}

// reverseWhole reads all rows of a place that was truncated, in part or whole:
// what the source has of that place beside them is gone.
func (p *plan) reverseWhole(t *tablePlan, s spot) string {
	names := ""
	if vias(t) {
		names = fmt.Sprintf("NULL::%s[], ", t.Via.TypeName)
	}
	return fmt.Sprintf("SELECT %[1]d, %[1]d, %[2]s%[3]s FROM %[4]s r", s.loc, names, stagedSource(t, "r"), s.table)
}

// stagedSource are the source's columns of a row read on a database.
func stagedSource(t *tablePlan, key string) string {
	plain := *t
	table := *t.Table
	table.StoreAs = ""
	plain.Table = &table
	return stagedColumns(&plain, key)
}

// touchedKeys selects the batch's keys by location. A key of which no location is
// known is looked for at all of them.
func (p *plan) touchedKeys(t *tablePlan, e entries, all []spot) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = postgres.Literal(s.name)
	}
	everywhere := "unnest(ARRAY[" + strings.Join(names, ", ") + "]::text[]) l(shardctl_loc)"
	side := func(s string) string {
		out := logColumns(t.Table, s)
		if vias(t) {
			out += ", " + s + "via AS shardctl_via"
		}
		return out
	}
	changed := pkChanged(t.Table)
	if vias(t) {
		changed = "true" // every parent it named counts
	}
	var parts []string
	for _, log := range p.logs(t.Table) {
		parts = append(parts,
			fmt.Sprintf("SELECT loc::text AS shardctl_loc, %s FROM %s WHERE %s AND op IN ('I', 'U', 'R') AND loc IS NOT NULL", side("n"), log, e.condition),
			fmt.Sprintf("SELECT loc::text, %s FROM %s WHERE %s AND (op = 'D' OR op = 'U' AND (%s))", side("o"), log, e.condition, changed),
			fmt.Sprintf("SELECT l.shardctl_loc, %s FROM %s CROSS JOIN %s WHERE %s AND op = 'R' AND loc IS NULL", side("n"), log, everywhere, e.condition))
	}
	if keys := e.extra[t.No]; len(keys) > 0 {
		extra := extraKeys(t, keys)
		columns := "x." + strings.Join(quoteAll(t.PKNames()), ", x.")
		if vias(t) {
			columns += fmt.Sprintf(", NULL::%s", t.Via.TypeName)
		}
		parts = append(parts, fmt.Sprintf("SELECT l.shardctl_loc, %s FROM (%s) x CROSS JOIN %s", columns, extra, everywhere))
	}
	pk := "e." + strings.Join(quoteAll(t.PKNames()), ", e.")
	agg := ""
	if vias(t) {
		agg = ", array_agg(DISTINCT e.shardctl_via) FILTER (WHERE e.shardctl_via IS NOT NULL) AS shardctl_vias"
	}
	return fmt.Sprintf("SELECT e.shardctl_loc, %[1]s%[2]s FROM (%[3]s) e GROUP BY e.shardctl_loc, %[1]s", pk, agg, strings.Join(parts, "\n UNION ALL "))
}

func quoteAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = postgres.Ident(n)
	}
	return out
}
