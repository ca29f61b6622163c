package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// found is a row where it lies.
type found struct {
	id        uuid.UUID
	row       row
	workspace string // by the stored key of a derived row, "" where there is none
	note      string // of a block, once the column was added
	place     string // for messages
	shard     int    // of the place; -1: any
}

// verdict is what a comparison found.
type verdict struct {
	lost, doubled, misplaced int
	examples                 []string
}

func (v *verdict) add(count *int, format string, args ...any) {
	*count++
	if len(v.examples) < 8 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) clean() bool { return v.lost+v.doubled+v.misplaced == 0 }

// readPlace reads the three tables of a schema.
func readPlace(ctx context.Context, conn *pgx.Conn, place, schema string, shard int) ([]found, error) {
	var stored, noted bool
	const look = `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = ($1 || '.comment')::regclass AND attname = 'workspace_id' AND NOT attisdropped),
  EXISTS (SELECT FROM pg_attribute WHERE attrelid = ($1 || '.block')::regclass AND attname = 'note' AND NOT attisdropped)`
	if err := conn.QueryRow(ctx, look, schema).Scan(&stored, &noted); err != nil {
		return nil, fmt.Errorf("read %s: %w", place, err)
	}
	key, note := "''", "''"
	if stored {
		key = "coalesce(workspace_id::text, 'NULL')"
	}
	if noted {
		note = "coalesce(note, 'NULL')"
	}
	sql := fmt.Sprintf(`SELECT 'workspace', id, NULL::uuid, body, version, '', '' FROM %[1]s.workspace
UNION ALL SELECT 'block', id, workspace_id, doc::text, version, '', %[3]s FROM %[1]s.block
UNION ALL SELECT 'comment', id, block_id, body, version, %[2]s, '' FROM %[1]s.comment`, pgx.Identifier{schema}.Sanitize(), key, note)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", place, err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (found, error) {
		f := found{place: place, shard: shard}
		var id [16]byte
		var parent *[16]byte
		err := r.Scan(&f.row.table, &id, &parent, &f.row.body, &f.row.version, &f.workspace, &f.note)
		f.id = id
		if parent != nil {
			f.row.parent = *parent
		}
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", place, err)
	}
	return all, nil
}

// judge holds what one side has against the ledger. The clients rest.
func (c *crowd) judge(rows []found) verdict {
	var v verdict
	l := c.book
	there, places := change{}, map[uuid.UUID]string{}
	for _, f := range rows {
		if other, twice := places[f.id]; twice {
			v.add(&v.doubled, "%s %s is at %s and at %s", f.row.table, f.id, other, f.place)
			continue
		}
		there[f.id], places[f.id] = f.row, f.place
		want := l.rows[f.id]
		switch {
		case l.doubted[f.id] || want == f.row:
		case want == row{}:
			v.add(&v.doubled, "%s %s at %s was deleted, or never written: %+v", f.row.table, f.id, f.place, f.row)
		default:
			v.add(&v.lost, "%s %s at %s is %+v instead of %+v", f.row.table, f.id, f.place, f.row, want)
		}
	}
	for id, want := range l.rows {
		if _, ok := there[id]; !ok && want != (row{}) && !l.doubted[id] {
			v.add(&v.lost, "%s %s is nowhere: %+v", want.table, id, want)
		}
	}
	for _, d := range l.doubts {
		if !there.agrees(d.before) && !there.agrees(d.after) {
			v.add(&v.lost, "a write whose answer was lost is there in part: %+v, neither %+v nor %+v", there.of(d.before), d.before, d.after)
		}
	}
	c.placed(rows, there, &v)
	return v
}

// agrees reports whether the rows are as a change has them.
func (c change) agrees(with change) bool {
	for id, want := range with {
		if c[id] != want {
			return false
		}
	}
	return true
}

// of picks the rows that another change speaks of.
func (c change) of(others change) change {
	some := change{}
	for id := range others {
		some[id] = c[id]
	}
	return some
}

// placed checks that each row lies at its own key's place, and holds the right stored key.
func (c *crowd) placed(rows []found, there change, v *verdict) {
	for _, f := range rows {
		workspace := f.id
		switch f.row.table {
		case "block":
			workspace = f.row.parent
		case "comment":
			workspace = there[f.row.parent].parent
		}
		if shard, known := c.places[workspace]; f.shard >= 0 && (!known || shard != f.shard) {
			v.add(&v.misplaced, "%s %s of shard %d is at %s", f.row.table, f.id, shard, f.place)
		}
		if f.workspace != "" && f.workspace != workspace.String() {
			v.add(&v.misplaced, "comment %s at %s has the stored key %s instead of %s", f.id, f.place, f.workspace, workspace)
		}
	}
}

// notes are what the added column holds, by block.
func notes(rows []found) map[uuid.UUID]string {
	all := map[uuid.UUID]string{}
	for _, f := range rows {
		if f.row.table == "block" {
			all[f.id] = f.note
		}
	}
	return all
}
