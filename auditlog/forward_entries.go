package auditlog

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// entries are what one batch takes from the logs.
type entries struct {
	condition string           // over a log's columns; none for a retry
	extra     map[int][]string // by table number: keys to be read besides, as JSON arrays of texts
	full      map[int]bool     // tables to be read whole: a parent was truncated
	part      bool             // of what one snapshot has: entries before or after it are in other batches
}

// typed gives an expression the type and collation that a column has, so that a
// log's value, a table's and a constant are one thing to a union.
func typed(expr string, c catalog.Column) string {
	if c.Collation != "" {
		return "(" + expr + ") COLLATE " + c.Collation
	}
	return expr
}

// keyTyped gives a shard key the one type of its family.
func keyTyped(expr, family string) string {
	switch family {
	case "int":
		return "(" + expr + ")::bigint"
	case "uuid":
		return "(" + expr + ")::uuid"
	}
	return "(" + expr + `)::text COLLATE pg_catalog."C"`
}

// logColumns are a log's columns of one side ("o" or "n") of a primary key, named
// as the table names them.
func logColumns(t *layout.Table, side string) string {
	out := make([]string, len(t.PK))
	for i, c := range t.PK {
		out[i] = typed(fmt.Sprintf("%s%d", side, i+1), c) + " AS " + postgres.Ident(c.Name)
	}
	return strings.Join(out, ", ")
}

// pkChanged is the condition that an update's entry changed the primary key.
func pkChanged(t *layout.Table) string {
	out := make([]string, len(t.PK))
	for i := range t.PK {
		out[i] = fmt.Sprintf("NOT o%[1]d %[2]s n%[1]d", i+1, t.Source.KeyEqual[i])
	}
	return strings.Join(out, " OR ")
}

// place is what an entry says of where a row was: the shard key, or the column
// that refers to the parent; "" for a table with one location.
func place(t *tablePlan, side string) string {
	switch {
	case !t.keyed:
		return ""
	case t.Derived():
		return side + "via"
	}
	return keyTyped(side+"key", t.Family)
}

// moved is the condition that an update's entry changed the primary key or the
// place.
func moved(t *tablePlan) string {
	changed := pkChanged(t.Table)
	switch {
	case !t.keyed:
		return changed
	case t.Derived():
		return changed + " OR (ovia IS NULL) <> (nvia IS NULL) OR NOT ovia " + viaEqual(t.Table) + " nvia"
	}
	return changed + " OR " + place(t, "o") + " IS DISTINCT FROM " + place(t, "n")
}

// viaEqual is the equality of the parent's primary key.
func viaEqual(t *layout.Table) string {
	if t.Via.BaseType == t.Parent.PK[0].BaseType {
		return t.Parent.Source.KeyEqual[0]
	}
	return "OPERATOR(pg_catalog.=)"
}

// fromLog is the union, over the segments of a table's log, of the new side of
// entries and the old side of those that left their place. Its columns are the
// primary key, shardctl_place (if the table's rows have places) and shardctl_any, which says that
// the old place is unknown. A derived row that left its parent, or is gone, was where
// that parent was then: in a part of a backlog the parent's own entry may be in
// another, and the parent's key now says nothing.
func (p *plan) fromLog(t *tablePlan, e entries) string {
	side := func(s, unknown string) string {
		out := logColumns(t.Table, s)
		if at := place(t, s); at != "" {
			out += ", " + at + " AS shardctl_place"
		}
		return out + ", " + unknown + " AS shardctl_any"
	}
	var parts []string
	for _, log := range p.logs(t.Table) {
		parts = append(parts,
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND op IN ('I', 'U', 'R')", side("n", "op = 'R'"), log, e.condition),
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (op = 'D' OR op = 'U' AND (%s))", side("o", fmt.Sprint(e.part && t.keyed && t.Derived())), log, e.condition, moved(t)))
	}
	if keys := e.extra[t.No]; len(keys) > 0 {
		parts = append(parts, extraKeys(t, keys))
	}
	return strings.Join(parts, "\n UNION ALL ")
}

// extraKeys selects keys that are given as JSON, with their old place unknown.
func extraKeys(t *tablePlan, keys []string) string {
	cols := make([]string, len(t.PK))
	for i, c := range t.PK {
		cols[i] = typed(fmt.Sprintf("(x.k ->> %d)::%s", i, c.TypeName), c) + " AS " + postgres.Ident(c.Name)
	}
	out := strings.Join(cols, ", ")
	switch {
	case t.keyed && t.Derived():
		out += fmt.Sprintf(", NULL::%s", t.Via.TypeName)
	case t.keyed:
		out += ", " + keyTyped("NULL", t.Family)
	}
	return fmt.Sprintf("SELECT %s, true FROM pg_catalog.jsonb_array_elements(%s::jsonb) x(k)", out, postgres.Literal("["+strings.Join(keys, ",")+"]"))
}

// leftPlace selects the primary keys of rows whose children must be looked at
// again: inserted, deleted, or moved.
func (p *plan) leftPlace(t *tablePlan, e entries) string {
	var parts []string
	for _, log := range p.logs(t.Table) {
		parts = append(parts,
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (op = 'I' OR op = 'U' AND (%s))", logColumns(t.Table, "n"), log, e.condition, moved(t)),
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (op = 'D' OR op = 'U' AND (%s))", logColumns(t.Table, "o"), log, e.condition, moved(t)))
	}
	return strings.Join(parts, "\n UNION ALL ")
}

// cameOrWent selects the primary keys that no row had for a while: before the batch's
// entry for it, or after.
func (p *plan) cameOrWent(t *tablePlan, e entries) string {
	var parts []string
	for _, log := range p.logs(t.Table) {
		parts = append(parts,
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (op = 'I' OR op = 'U' AND (%s))", logColumns(t.Table, "n"), log, e.condition, pkChanged(t.Table)),
			fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (op = 'D' OR op = 'U' AND (%s))", logColumns(t.Table, "o"), log, e.condition, pkChanged(t.Table)))
	}
	return strings.Join(parts, "\n UNION ALL ")
}
