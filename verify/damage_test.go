package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// spot is where a row stands.
type spot struct {
	db     *pgtest.Database
	name   string // of the database
	schema string
	table  string // quoted
}

// find looks for the place of a row that is there once.
func (w *world) find(table *layout.Table, where string) spot {
	w.t.Helper()
	var found []spot
	for i, db := range w.databases {
		for _, p := range w.verifier.places(table, w.verifier.databases[i]) {
			if db.Value(w.t, "SELECT count(*) FROM "+p.table+" WHERE "+where) != "0" {
				found = append(found, spot{db, p.Database, p.Schema, p.table})
			}
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%s is at %d places", where, len(found))
	}
	return found[0]
}

// other gives a place of a table that is not the given one, on the same database or
// on another.
func (w *world) other(table *layout.Table, s spot, sameDatabase bool) spot {
	for i, db := range w.databases {
		for _, p := range w.verifier.places(table, w.verifier.databases[i]) {
			if (p.Database == s.name) == sameDatabase && p.Schema != s.schema {
				return spot{db, p.Database, p.Schema, p.table}
			}
		}
	}
	w.t.Fatal("there is no other place")
	return spot{}
}

// move copies a row to another place and, unless it is to be there twice, takes it
// away from the first.
func (w *world) move(from, to spot, where string, twice bool) {
	w.t.Helper()
	row := from.db.Value(w.t, "SELECT t::text FROM "+from.table+" AS t WHERE "+where)
	w.damage(to.db, fmt.Sprintf("INSERT INTO %s SELECT (%s::%s).*", to.table, postgres.Literal(row), to.table))
	if !twice {
		w.damage(from.db, "DELETE FROM "+from.table+" WHERE "+where)
	}
}

func id(i int) string { return fmt.Sprintf("id = md5('%d')::uuid", i) }

func TestEachKindOfDamageIsFound(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	block, comment, plan := w.layout.Tables[0], w.layout.Tables[1], w.layout.Tables[2]
	key := func(i int) string { return w.source.Value(t, "SELECT md5($1::int::text)::uuid", i) }
	var want []string
	expect := func(kind Kind, table, key string, s spot, columns string) {
		want = append(want, strings.TrimSpace(fmt.Sprintf("%s public.%s %s %s.%s %s", kind, table, key, s.name, s.schema, columns)))
	}

	s := w.find(block, id(1))
	w.damage(s.db, "DELETE FROM "+s.table+" WHERE "+id(1))
	expect(Missing, "block", key(1), s, "")

	s = w.find(block, id(2))
	w.move(s, w.other(block, s, false), id(2), true)
	expect(Duplicate, "block", key(2), w.other(block, s, false), "")

	s = w.find(block, id(3))
	w.move(s, w.other(block, s, true), id(3), false)
	expect(WrongLocation, "block", key(3), w.other(block, s, true), "")

	s = w.find(block, id(4))
	w.damage(s.db, "INSERT INTO "+s.table+" (id, ws) SELECT md5('extra')::uuid, ws FROM "+s.table+" WHERE "+id(4))
	expect(Extra, "block", s.db.Value(t, "SELECT md5('extra')::uuid"), s, "")

	for i, change := range map[int]string{
		10: "f = f + 1e-9", 11: "n = trim_scale(n)", 12: "kind = kind || ' '", 13: "props = props || '{\"x\": null}'", 14: "at = at + '1us'",
		15: "kind = NULL", 22: "kind = NULL", // '' before
	} {
		s := w.find(block, id(i))
		w.damage(s.db, "UPDATE "+s.table+" SET "+change+" WHERE "+id(i))
		column, _, _ := strings.Cut(change, " ")
		expect(Different, "block", key(i), s, column)
	}

	// A child that is not where its parent is, and one whose stored key is not its parent's.
	s = w.find(comment, "id = 500")
	w.move(s, w.other(comment, s, false), "id = 500", false)
	expect(WrongLocation, "comment", "500", w.other(comment, s, false), "")
	s = w.find(comment, "id = 501")
	w.damage(s.db, "UPDATE "+s.table+" SET ws = ws + 1 WHERE id = 501")
	expect(Different, "comment", "501", s, "ws")

	// One copy of a table that is everywhere.
	at := w.verifier.places(plan, w.verifier.databases[1])[0]
	s = spot{w.databases[1], at.Database, at.Schema, at.table}
	w.damage(s.db, "DELETE FROM "+s.table+" WHERE id = 3")
	expect(Missing, "plan", "3", s, "")
	w.damage(s.db, "UPDATE "+s.table+" SET name = 'Plan 4' WHERE id = 4")
	expect(Different, "plan", "4", s, "name")

	r := w.full()
	got := lines(r.Differences)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || r.State != Differences || r.Truncated {
		t.Errorf("state %s, found\n%s\nwant\n%s", r.State, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := w.verifier.Gate(t.Context(), []string{"db0"}, 0); migrate.ExitCode(err) != migrate.ExitRefused {
		t.Errorf("the gate says %v", err)
	}

	// What is mended is clean only for a new pass.
	w.catchUp()
	if s, err := w.verifier.State(t.Context(), 0); err != nil || s.State != Differences {
		t.Errorf("after the mending: %+v, %v", s, err)
	}
	if r := w.full(); r.State != Clean {
		t.Errorf("after the mending a pass found %v", lines(r.Differences))
	}
}

// Two rows that swap a column's values leave every count, and every sum over a
// column, as it was.
func TestASwapIsFound(t *testing.T) {
	t.Parallel()
	w := build(t, 1, migrate.Shards{Count: 2, Schema: "app"}, []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "a"}, Key: migrate.Key{Column: "k"}}},
		"", "CREATE TABLE public.a (id int PRIMARY KEY, k int, x int, y text)")
	w.source.Exec(t, "INSERT INTO a SELECT i, i % 5, i, 'y' || i FROM generate_series(1, 500) i")
	w.catchUp()
	w.damage(w.databases[0], "UPDATE app.a SET x = CASE id WHEN 7 THEN 8 ELSE 7 END WHERE id IN (7, 8)")
	w.damage(w.databases[0], "UPDATE app.a SET y = CASE id WHEN 17 THEN 'y18' ELSE 'y17' END WHERE id IN (17, 18)")
	want := []string{"different public.a 17 db0.app y", "different public.a 18 db0.app y", "different public.a 7 db0.app x", "different public.a 8 db0.app x"}
	if got := lines(w.full().Differences); !slices.Equal(got, want) {
		t.Errorf("found %v", got)
	}
}
