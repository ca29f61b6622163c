package main

import (
	"testing"

	"github.com/google/uuid"
)

// TestJudgeSeesDamage: what a side has is held against the ledger, both ways.
func TestJudgeSeesDamage(t *testing.T) {
	t.Parallel()
	home, other := uuid.New(), uuid.New()
	block, comment, gone, unsure, partner := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	rows := func(change ...func(map[uuid.UUID]found)) (all []found) {
		there := map[uuid.UUID]found{}
		put := func(id uuid.UUID, r row, key string) {
			there[id] = found{id: id, row: r, workspace: key, place: "db0.shard_001", shard: 1}
		}
		put(home, row{"workspace", uuid.Nil, "w", 1}, "")
		put(block, row{"block", home, "b", 2}, "")
		put(comment, row{"comment", block, "c", 3}, home.String())
		put(unsure, row{"block", home, "after", 2}, "")
		put(partner, row{"comment", unsure, "after", 2}, home.String())
		for _, fn := range change {
			fn(there)
		}
		for _, f := range there {
			all = append(all, f)
		}
		return all
	}
	edit := func(id uuid.UUID, fn func(*found)) func(map[uuid.UUID]found) {
		return func(there map[uuid.UUID]found) {
			f := there[id]
			fn(&f)
			there[id] = f
		}
	}
	crowd := func() *crowd {
		c := &crowd{book: newLedger(), places: map[uuid.UUID]int{home: 1, other: 2}}
		c.book.load(change{home: {"workspace", uuid.Nil, "w", 1}, block: {"block", home, "b", 2}, comment: {"comment", block, "c", 3},
			gone: {}, unsure: {"block", home, "before", 1}, partner: {"comment", unsure, "before", 1}})
		c.book.doubt(change{unsure: {"block", home, "after", 2}, partner: {"comment", unsure, "after", 2}})
		return c
	}
	before := func(there map[uuid.UUID]found) {
		edit(unsure, func(f *found) { f.row = row{"block", home, "before", 1} })(there)
		edit(partner, func(f *found) { f.row = row{"comment", unsure, "before", 1} })(there)
	}
	for _, c := range []struct {
		name                     string
		rows                     []found
		lost, doubled, misplaced int
	}{
		{"as acknowledged, the doubt as written", rows(), 0, 0, 0},
		{"as acknowledged, the doubt as before", rows(before), 0, 0, 0},
		{"half of a doubt", rows(edit(partner, func(f *found) { f.row.body, f.row.version = "before", 1 })), 1, 0, 0},
		{"a doubt that is neither", rows(edit(unsure, func(f *found) { f.row.body = "else" })), 1, 0, 0},
		{"a row that is not there", rows(func(there map[uuid.UUID]found) { delete(there, comment) }), 1, 0, 0},
		{"an old state", rows(edit(block, func(f *found) { f.row.version = 1 })), 1, 0, 0},
		{"a deleted row", rows(func(there map[uuid.UUID]found) {
			there[gone] = found{id: gone, row: row{"block", home, "x", 1}, shard: 1}
		}), 0, 1, 0},
		{"a row nobody wrote", append(rows(), found{id: uuid.New(), row: row{"workspace", uuid.Nil, "x", 1}, shard: -1}), 0, 1, 0},
		{"twice", append(rows(), found{id: block, row: row{"block", home, "b", 2}, place: "db1.shard_001", shard: 1}), 0, 1, 0},
		{"another shard", rows(edit(block, func(f *found) { f.shard = 2 })), 0, 0, 1},
		{"another stored key", rows(edit(comment, func(f *found) { f.workspace = other.String() })), 0, 0, 1},
	} {
		v := crowd().judge(c.rows)
		if v.lost != c.lost || v.doubled != c.doubled || v.misplaced != c.misplaced {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
