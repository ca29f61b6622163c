package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/postgres"
)

// storedAt is the SQL, on the source, for the location that a stored row, aliased
// row, maps to; and the condition that it has no key because its parent is gone.
func (r *restitution) storedAt(t *tablePlan, row string) string {
	p := r.b.v.db.a.plan
	if !t.keyed {
		return fmt.Sprint(p.only(t))
	}
	joins, key := t.KeyFrom(row)
	at := p.rowLocation(t, key)
	if joins == "" {
		return at
	}
	return fmt.Sprintf("(SELECT %s FROM (SELECT 1) one%s)", at, joins)
}

// orphaned is the condition that the stored row, aliased t, has lost its parent,
// and that the entries of the staged key, aliased s, named that parent: then it is
// the database's.
func (r *restitution) orphaned(st *staged) string {
	t := st.stage.table
	if !vias(t) {
		return "false"
	}
	joins, key := t.KeyFrom("t")
	return fmt.Sprintf("((SELECT %s IS NULL FROM (SELECT 1) one%s) AND t.%s %s ANY (s.shardctl_vias))", key, joins, postgres.Ident(t.Via.Name), viaEqual(t.Table))
}

// ours is the condition that a location is one of the database's.
func (r *restitution) ours(location string) string {
	locs := r.b.v.db.a.plan.locations(r.b.v.db.place)
	if len(locs) == 1 {
		return fmt.Sprintf("%s = %d", location, locs[0])
	}
	return fmt.Sprintf("%s = ANY ('{%s}'::int[])", location, joinInts(locs))
}

func (r *restitution) manyLocations() bool {
	return len(r.b.v.db.a.plan.locations(r.b.v.db.place)) > 1
}

// deletes remove from the source what is gone, where it is still the row of that
// location: an equal key of another database, or of the source's own, stays.
func (r *restitution) deletes() []statement {
	ordered := r.ordered()
	var out []statement
	for i := len(ordered) - 1; i >= 0; i-- {
		st := ordered[i]
		if anyTrue(st.deletes) {
			out = append(out, r.deleteOf(st))
		}
		for loc := range r.b.truncated[st.stage.table.No] {
			out = append(out, r.wipeOf(st, loc))
		}
	}
	return out
}

func (r *restitution) deleteOf(st *staged) statement {
	s, t := st.stage, st.stage.table
	where := fmt.Sprintf("s.shardctl_cur = %d", nowhere)
	if r.manyLocations() && t.keyed {
		// A key that is at another location by now is written there.
		where += fmt.Sprintf(" AND NOT EXISTS (SELECT FROM %s u WHERE u.shardctl_cur >= 0 AND %s)", s.name, s.sameStaged("u"))
	}
	return statement{action: remove, staged: st, where: where, sql: func(where string) string {
		return fmt.Sprintf("DELETE FROM %s t USING %s s WHERE %s AND %s AND (%s = s.shardctl_old OR %s)",
			t.QualifiedSource(), s.name, where, s.same("t"), r.storedAt(t, "t"), r.orphaned(st))
	}}
}

// wipeOf removes from the source what a truncated location has no more: rows that
// map to that location alone.
func (r *restitution) wipeOf(st *staged, loc int) statement {
	s, t := st.stage, st.stage.table
	return statement{action: other, sql: func(string) string {
		return fmt.Sprintf("DELETE FROM %s t WHERE %s = %d AND (%s) NOT IN (SELECT %s FROM %s s WHERE s.shardctl_cur = %[3]d)",
			t.QualifiedSource(), r.storedAt(t, "t"), loc, postgres.Idents("t", t.PKNames()), s.keyExprs(), s.name)
	}}
}

// sameStaged is the condition that another staged row, aliased as given, has the
// same key as s.
func (s *stage) sameStaged(alias string) string {
	parts := make([]string, len(s.table.PK))
	for i, c := range s.table.PK {
		name := postgres.Ident(c.Name)
		equal := s.table.Source.KeyEqual[i]
		if s.textual {
			equal = "="
		}
		parts[i] = fmt.Sprintf("%s.%s %s s.%s", alias, name, equal, name)
	}
	return strings.Join(parts, " AND ")
}

// writeOf writes the rows of one table to the source: new ones, and those whose
// stored row is at the same location, or, once what is not this database's is
// settled, at any of its locations. A row whose own key leads elsewhere is left.
func (r *restitution) writeOf(st *staged, settled bool) statement {
	s, t := st.stage, st.stage.table
	where, condition := "s.shardctl_cur >= 0", ""
	if t.keyed {
		condition = r.ours(r.storedAt(t, "t"))
		if r.manyLocations() && !settled {
			condition = fmt.Sprintf("%s = %s AND %s", r.storedAt(t, "t"), r.storedAt(t, "excluded"), condition)
		}
		if !t.Derived() {
			where += " AND " + r.b.v.db.a.plan.rowLocation(t, s.expr(s.column(t.Key.Name))) + " = s.shardctl_cur"
		}
	}
	table := t.QualifiedSource()
	mine := "true"
	switch {
	case t.keyed && r.manyLocations():
		mine = fmt.Sprintf("(%s = s.shardctl_cur OR %s)", r.storedAt(t, "t"), r.orphaned(st))
	case t.keyed:
		mine = fmt.Sprintf("(%s OR %s)", r.ours(r.storedAt(t, "t")), r.orphaned(st))
	}
	return statement{
		action: write, staged: st, where: where,
		sql:    func(where string) string { return s.upsert(table, where, st.twice, condition) },
		insert: func(where string) string { return s.insert(table, where, st.twice) },
		remove: func(where string) string {
			return fmt.Sprintf("DELETE FROM %s t USING %s s WHERE %s AND %s AND %s", table, s.name, where, s.same("t"), mine)
		},
	}
}

// writes are the statements that write a table. Where an update cannot set a
// column, the stored rows make room first.
func (r *restitution) writes(st *staged, settled bool) []statement {
	w := r.writeOf(st, settled)
	if !st.stage.needsReplace() {
		return []statement{w}
	}
	return []statement{{action: other, where: w.where, sql: w.remove}, w}
}

// settle looks at the rows of a table that were not written: those whose stored
// row has moved here from another location of the database, or lost its parent,
// make room for it; the others are barred, for the source's row is not this
// database's.
func (r *restitution) settle(ctx context.Context, st *staged) error {
	s, t := st.stage, st.stage.table
	if !t.keyed {
		return nil
	}
	table, at := t.QualifiedSource(), r.storedAt(t, "t")
	moved := "false"
	if r.manyLocations() {
		moved = fmt.Sprintf("(%s AND %s <> s.shardctl_cur AND EXISTS (SELECT FROM %s u WHERE u.shardctl_cur = %d AND u.shardctl_old = %s AND %s))",
			r.ours(at), at, s.name, nowhere, at, s.sameStaged("u"))
	}
	statements := []string{fmt.Sprintf("DELETE FROM %s t USING %s s WHERE s.shardctl_cur >= 0 AND %s AND (%s OR %s)", table, s.name, s.same("t"), moved, r.orphaned(st))}
	foreign := fmt.Sprintf("%s IS DISTINCT FROM s.shardctl_cur", at)
	if t.Derived() && !r.manyLocations() {
		foreign = fmt.Sprintf("(%s) IS NOT TRUE", r.ours(at))
	}
	statements = append(statements, fmt.Sprintf("UPDATE %s s SET shardctl_cur = %d FROM %s t WHERE s.shardctl_cur >= 0 AND %s AND %s", s.name, barred, table, s.same("t"), foreign))
	if !t.Derived() {
		own := r.b.v.db.a.plan.rowLocation(t, s.expr(s.column(t.Key.Name)))
		statements = append(statements, fmt.Sprintf("UPDATE %s s SET shardctl_cur = %d WHERE s.shardctl_cur >= 0 AND %s IS DISTINCT FROM s.shardctl_cur", s.name, barred, own))
	}
	if _, err := runAll(ctx, r.tx, statements); err != nil {
		return fmt.Errorf("look at rows that are not this database's: %w", err)
	}
	return nil
}

// left bars the rows of a table that were to be written and are not there: a row
// of that key which is not this database's came in between.
func (r *restitution) left(st *staged, failed []failure) string {
	s, t := st.stage, st.stage.table
	there := s.same("t")
	if t.keyed {
		there += fmt.Sprintf(" AND (%s OR %s)", r.ours(r.storedAt(t, "t")), r.orphaned(st))
	}
	where := "s.shardctl_cur >= 0"
	for _, f := range failed {
		if f.statement.staged == st {
			where += " AND NOT (" + among([]failure{f}) + ")"
		}
	}
	return fmt.Sprintf("UPDATE %s s SET shardctl_cur = %d WHERE %s AND NOT EXISTS (SELECT FROM %s t WHERE %s)", s.name, barred, where, t.QualifiedSource(), there)
}
