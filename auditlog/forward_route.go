package auditlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/rowstream"
)

// route hands the rows of one table to the databases that have or had them.
type route struct {
	plan    *plan
	table   *tablePlan
	members []*member // by the database's place; nil: not in this tick
	stages  []*stage  // by the database's place
}

// take looks at a row's two locations, and at nothing else of it.
func (r *route) take(t rowstream.Tuple) error {
	old, err := location(t, 0)
	if err != nil {
		return err
	}
	cur, err := location(t, 1)
	if err != nil {
		return err
	}
	if r.table.Everywhere() || old == anywhere || cur == refused {
		for place := range r.members {
			r.give(place, t, old, cur)
		}
		return nil
	}
	if old >= 0 {
		r.give(r.plan.home[old], t, old, cur)
	}
	if cur >= 0 && (old < 0 || r.plan.home[cur] != r.plan.home[old]) {
		r.give(r.plan.home[cur], t, old, cur)
	}
	return nil
}

func location(t rowstream.Tuple, field int) (int, error) {
	value, null := t.Field(field)
	switch {
	case null:
		return 0, fmt.Errorf("a row without a location")
	case t.Format() == rowstream.Binary:
		if len(value) != 4 {
			return 0, fmt.Errorf("a location of %d bytes", len(value))
		}
		return int(int32(binary.BigEndian.Uint32(value))), nil
	}
	return strconv.Atoi(string(value))
}

// give stages a row for one database and notes which statements it needs.
func (r *route) give(place int, t rowstream.Tuple, old, cur int) {
	m := r.members[place]
	if m == nil || m.in.err != nil {
		return
	}
	if m.db.moved && !r.table.Everywhere() {
		m.strays[r.table.No] = true
		return
	}
	s := r.stages[place]
	st := m.in.of(s)
	if r.table.Everywhere() {
		st.upserts[0] = st.upserts[0] || cur >= 0
		st.deletes[0] = st.deletes[0] || cur == nowhere
		m.in.put(s, t)
		return
	}
	here := func(loc int) bool { return loc >= 0 && r.plan.home[loc] == place }
	switch {
	case cur == refused:
		st.refused = true
	case old == anywhere:
		st.sweep = true
	case old != cur && here(old):
		st.deletes[old] = true
	}
	if here(cur) {
		st.upserts[cur] = true
		st.twice = st.twice || old != cur
	}
	m.in.put(s, t)
}

// stream reads one table in the tick's snapshot and hands its rows out as they come.
func (r *route) stream(ctx context.Context, tx pgx.Tx, sql string, format rowstream.Format) error {
	split := rowstream.NewSplitter(format, r.take)
	if _, err := tx.Conn().PgConn().CopyTo(ctx, split, sql); err != nil {
		return fmt.Errorf("read %s: %w", r.table.Name(), err)
	}
	if err := split.Close(); err != nil {
		return fmt.Errorf("read %s: %w", r.table.Name(), err)
	}
	for _, m := range r.members {
		if m != nil {
			m.in.endTable()
		}
	}
	return nil
}
