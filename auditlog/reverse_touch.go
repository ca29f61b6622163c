package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// touch notes the tables and locations that entries name. It reports whether any
// was not noted before.
func (v *reverser) touch(ctx context.Context, q postgres.Querier, look survey, condition string) (more bool, err error) {
	p := v.db.a.plan
	var parts []string
	for _, t := range v.read.survey.tables {
		if !look.tables[t.No] {
			continue
		}
		for _, log := range p.logs(t.Table) {
			parts = append(parts, fmt.Sprintf("SELECT DISTINCT %d, coalesce(loc::text, '') FROM %s WHERE %s AND op <> 'P'", t.No, log, condition))
		}
	}
	if len(parts) == 0 {
		return false, nil
	}
	rows, err := q.Query(ctx, strings.Join(parts, " UNION "), pgx.QueryExecModeExec)
	if err != nil {
		return false, fmt.Errorf("look where the log of %s leads: %w", v.db.name(), err)
	}
	var table int
	var schema string
	_, err = pgx.ForEachRow(rows, []any{&table, &schema}, func() error {
		for _, at := range p.spots(p.tables[table-1], v.db.place) {
			if at.name == schema || schema == "" {
				more = v.add(table, at.loc) || more
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look where the log of %s leads: %w", v.db.name(), err)
	}
	return more, nil
}

// add notes one table at one location; it reports whether it is new.
func (v *reverser) add(table, loc int) bool {
	if v.touched == nil {
		v.touched = map[int]map[int]bool{}
	}
	if v.touched[table] == nil {
		v.touched[table] = map[int]bool{}
	}
	if v.touched[table][loc] {
		return false
	}
	v.touched[table][loc] = true
	return true
}

// places are the noted places of a table.
func (v *reverser) places(t *tablePlan) []spot {
	var out []spot
	for _, at := range v.db.a.plan.spots(t, v.db.place) {
		if v.touched[t.No][at.loc] {
			out = append(out, at)
		}
	}
	return out
}

// readable are the relations that a tick locks: the logs, and the noted places. To
// lock every table of every location would fill the server's lock table.
func (v *reverser) readable() []string {
	var out []string
	for _, t := range v.read.survey.tables {
		out = append(out, v.db.a.plan.logs(t.Table)...)
		for _, at := range v.places(t) {
			out = append(out, at.table)
		}
	}
	return out
}
