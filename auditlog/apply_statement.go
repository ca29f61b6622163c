package auditlog

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// action is what a statement does to the rows it is about.
type action int

const (
	other  action = iota // not about staged rows one by one
	remove               // deletes staged keys
	write                // writes staged rows
)

// statement is one statement of the apply. What it does can be narrowed to a part
// of the staged rows, so that the rows that cannot be applied are found.
type statement struct {
	action action
	staged *staged
	where  string // the staged rows, aliased s, that it is about
	sql    func(where string) string
	remove func(where string) string // write: deletes the written keys, before all are inserted
	insert func(where string) string // write: inserts rows whose keys were deleted
}

// text is the statement over all its rows.
func (s statement) text() string { return s.sql(s.where) }

// plainStatement is one that is not about staged rows.
func plainStatement(sql string) statement {
	return statement{sql: func(string) string { return sql }}
}

// deleteAt deletes, at one place, keys that are gone or elsewhere.
func (st *staged) deleteAt(at spot, old int) statement {
	s := st.stage
	where := fmt.Sprintf("s.shardctl_old = %d AND s.shardctl_cur <> %d AND s.shardctl_cur > %d", old, at.loc, refused)
	return statement{action: remove, staged: st, where: where, sql: st.deleter(s, at)}
}

// writeAt are the statements that write the rows that belong at a place.
func (st *staged) writeAt(at spot) []statement {
	up := st.upsertAt(at)
	if !st.stage.needsReplace() {
		return []statement{up}
	}
	away := statement{action: other, where: up.where, sql: up.remove}
	up.sql = up.insert
	return []statement{away, up}
}

func (st *staged) deleter(s *stage, at spot) func(string) string {
	return func(where string) string {
		return fmt.Sprintf("DELETE FROM %s t USING %s s WHERE %s AND %s", at.table, s.name, where, s.same("t"))
	}
}

// upsertAt writes, at one place, the rows that belong there.
func (st *staged) upsertAt(at spot) statement {
	s := st.stage
	return statement{
		action: write, staged: st, where: fmt.Sprintf("s.shardctl_cur = %d", at.loc),
		sql:    func(where string) string { return s.upsert(at.table, where, st.twice, "") },
		remove: st.deleter(s, at),
		insert: func(where string) string { return s.insert(at.table, where, st.twice) },
	}
}

// upsert is the INSERT … ON CONFLICT that makes stored rows equal to staged ones.
// DO UPDATE sets every column, the key too: values may be equal and yet differ.
func (s *stage) upsert(table, where string, twice bool, condition string) string {
	var set []string
	for _, c := range s.columns {
		if !c.always {
			set = append(set, c.name+" = excluded."+c.name)
		}
	}
	do := "NOTHING"
	if len(set) > 0 {
		do = "UPDATE SET " + strings.Join(set, ", ")
		if condition != "" {
			do += " WHERE " + condition
		}
	}
	return fmt.Sprintf("%s ON CONFLICT (%s) DO %s", s.insert(table, where, twice), s.keyNames(), do)
}

// insert is the bare INSERT of staged rows.
func (s *stage) insert(table, where string, twice bool) string {
	names, values := make([]string, len(s.columns)), make([]string, len(s.columns))
	for i, c := range s.columns {
		names[i], values[i] = c.name, s.expr(c)
	}
	distinct := ""
	if twice {
		distinct = "DISTINCT ON (" + s.keyExprs() + ") "
	}
	return fmt.Sprintf("INSERT INTO %s AS t (%s) OVERRIDING SYSTEM VALUE SELECT %s%s FROM %s s WHERE %s",
		table, strings.Join(names, ", "), distinct, strings.Join(values, ", "), s.name, where)
}

func (s *stage) keyNames() string { return postgres.Idents("", s.table.PKNames()) }

func (s *stage) keyExprs() string {
	out := make([]string, len(s.table.PK))
	for i, c := range s.table.PK {
		out[i] = s.expr(s.column(c.Name))
	}
	return strings.Join(out, ", ")
}

// needsReplace reports whether an update cannot set a column that is not the key.
func (s *stage) needsReplace() bool {
	for _, c := range s.columns {
		if c.always && !c.pk {
			return true
		}
	}
	return false
}

// allPlaces is the place of a tombstone that stands for a delete at all of a database's
// places but where the row is now. Chunks ask by key alone: a row for each would say no more.
const allPlaces = "*"

// tombstones notes every delete that was issued, hit or not, by location.
func (st *staged) tombstones(migration string, spots []spot, tick int64) []string {
	s := st.stage
	var ids []int
	var names []string
	for _, at := range spots {
		if st.deletes[at.loc] {
			ids, names = append(ids, at.loc), append(names, postgres.Literal(at.name))
		}
	}
	var out []string
	if len(ids) > 0 {
		// The staged rows lead: each finds its place's name in the short list.
		places := fmt.Sprintf("(SELECT * FROM unnest('{%s}'::int[], ARRAY[%s]::name[])) l(id, name)", joinInts(ids), strings.Join(names, ", "))
		out = append(out, s.note(migration, tick, "l.name", fmt.Sprintf("%s s JOIN %s ON s.shardctl_old = l.id WHERE s.shardctl_cur <> s.shardctl_old AND s.shardctl_cur > %d", s.name, places, refused)))
	}
	if st.sweep && len(spots) > 0 {
		place, elsewhere := allPlaces, ""
		if len(spots) == 1 {
			place, elsewhere = spots[0].name, fmt.Sprintf(" AND s.shardctl_cur <> %d", spots[0].loc)
		}
		out = append(out, s.note(migration, tick, postgres.Literal(place)+"::name", fmt.Sprintf("%s s WHERE s.shardctl_old = %d AND s.shardctl_cur > %d%s", s.name, anywhere, refused, elsewhere)))
	}
	return out
}

// note writes the tombstones of staged keys.
func (s *stage) note(migration string, tick int64, place, from string) string {
	keys := make([]string, len(s.table.PK))
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i+1)
	}
	columns := strings.Join(keys, ", ") + ", loc"
	return fmt.Sprintf("INSERT INTO %s AS t (%s, tick) SELECT DISTINCT %s, %s, %d FROM %s ON CONFLICT (%s) DO UPDATE SET tick = greatest(t.tick, excluded.tick)",
		postgres.Table(logschema.Schema, logschema.Tombstones(migration, s.table.No)), columns, s.keyExprs(), place, tick, from, columns)
}

func anyTrue(list []bool) bool {
	for _, b := range list {
		if b {
			return true
		}
	}
	return false
}

// statements are all that a tick does to one database's tables: truncates, then
// deletes with children first, then rows with parents first.
func (in *intake) statements(p *plan, place int) []statement {
	byTable := map[int]*staged{}
	for _, st := range in.staged {
		byTable[st.stage.table.No] = st
	}
	var out []statement
	for i := len(p.order) - 1; i >= 0; i-- {
		st := byTable[p.order[i].No]
		if st == nil {
			continue
		}
		for _, at := range p.spots(p.order[i], place) {
			if st.deletes[at.loc] {
				out = append(out, st.deleteAt(at, at.loc))
			}
			if st.sweep {
				out = append(out, st.deleteAt(at, anywhere))
			}
		}
	}
	for _, t := range p.order {
		st := byTable[t.No]
		if st == nil {
			continue
		}
		for _, at := range p.spots(t, place) {
			if st.upserts[at.loc] {
				out = append(out, st.writeAt(at)...)
			}
		}
	}
	return out
}
