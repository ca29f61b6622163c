package cutover

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// Everywhere tables are copied with the source's keys, and nobody draws from their
// sequences on a database until it is given its copies: they stand where they were made.
// Here they are moved past those keys. A sequence that sharded tables draw from as well
// keeps its lane.

// AdvanceEverywhere moves a database's sequences of everywhere tables past what the
// source has drawn. It is run before the tables are opened, in the same transaction;
// sequences are never lowered, so that it may be run again.
func AdvanceEverywhere(ctx context.Context, l *layout.Layout, source postgres.Querier, tx pgx.Tx) error {
	var tables []uint32
	for _, t := range l.Tables {
		if t.Everywhere() {
			tables = append(tables, t.Source.OID)
		}
	}
	drawn, err := loadSequences(ctx, source, tables)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	theirs := make([]sequence, len(drawn))
	for i, s := range drawn {
		theirs[i] = newTables(l).targetSequence(s)
	}
	if err := readSteps(ctx, tx, theirs); err != nil {
		return err
	}
	var now, goals []sequence
	for i, s := range theirs {
		if s.Step != missing { // else the source's table draws from it only since the copy was made
			now, goals = append(now, s), append(goals, drawn[i])
		}
	}
	return advance(ctx, tx, now, goals)
}

// AdvanceEverywhereAlone is AdvanceEverywhere without a source: past what the columns
// hold. It returns the sequences that no column tells of, which are left as they are.
func AdvanceEverywhereAlone(ctx context.Context, l *layout.Layout, database string, tx pgx.Tx) (untold []string, err error) {
	var tables []uint32
	err = tx.QueryRow(ctx, "SELECT array_agg(name::regclass::oid) FROM unnest($1::text[]) name", fence.EverywhereTables(l, database)).Scan(&tables)
	if err != nil {
		return nil, fmt.Errorf("read everywhere tables: %w", err)
	}
	all, err := loadSequences(ctx, tx, tables)
	if err != nil {
		return nil, err
	}
	columns, err := drawnColumns(ctx, tx, tables)
	if err != nil {
		return nil, err
	}
	var now, goals []sequence
	for _, s := range all {
		own := columns[postgres.Table(s.Schema, s.Name)]
		if len(own) == 0 {
			untold = append(untold, postgres.Table(s.Schema, s.Name))
			continue
		}
		goal := s
		goal.Step = missing // how the source stepped is not known any more
		for _, c := range own {
			if err := goal.readColumn(ctx, tx, c); err != nil {
				return nil, err
			}
		}
		now, goals = append(now, s), append(goals, goal)
	}
	return untold, advance(ctx, tx, now, goals)
}

// drawnColumnsSQL lists the numeric columns that draw from sequences: a text that is made
// from a number does not tell it.
const drawnColumnsSQL = "WITH RECURSIVE " + drawsSQL + `,
columns AS (
  SELECT seq, tab, attname, atttypid AS type FROM draws JOIN pg_attribute ON attrelid = tab AND attnum = col
  UNION SELECT seq, tab, attname, typbasetype FROM columns JOIN pg_type t ON t.oid = type WHERE typbasetype <> 0)
SELECT n.nspname, c.relname, tn.nspname, t.relname, attname
FROM columns JOIN pg_sequence s ON s.seqrelid = seq JOIN pg_class c ON c.oid = seq JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class t ON t.oid = tab JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE type IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype) ORDER BY 1, 2, 3, 4, 5`

// column is one that draws from a sequence.
type column struct{ table, name string }

// drawnColumns lists the numeric columns of the tables' sequences.
func drawnColumns(ctx context.Context, q postgres.Querier, tables []uint32) (map[string][]column, error) {
	rows, err := q.Query(ctx, drawnColumnsSQL, tables)
	if err != nil {
		return nil, fmt.Errorf("read the columns of sequences: %w", err)
	}
	out := map[string][]column{}
	var schema, sequence, tableSchema, table, name string
	_, err = pgx.ForEachRow(rows, []any{&schema, &sequence, &tableSchema, &table, &name}, func() error {
		of := postgres.Table(schema, sequence)
		out[of] = append(out[of], column{postgres.Table(tableSchema, table), postgres.Ident(name)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the columns of sequences: %w", err)
	}
	return out, nil
}

// readColumn makes the sequence stand at the furthest value that a column holds, where
// that is further. A row that has the last number of all was not drawn: it is one that the
// application made for a purpose, and nothing could be drawn after it.
func (s *sequence) readColumn(ctx context.Context, q postgres.Querier, c column) error {
	furthest, before, end := "max", "<", s.Max
	if s.Increment < 0 {
		furthest, before, end = "min", ">", s.Min
	}
	var value *int64
	sql := fmt.Sprintf("SELECT %s(%s)::numeric::bigint FROM %s WHERE %s %s $1::bigint", furthest, c.name, c.table, c.name, before)
	if err := q.QueryRow(ctx, sql, end).Scan(&value); err != nil {
		return fmt.Errorf("read %s of %s: %w", c.name, c.table, err)
	}
	if value != nil && !s.past(s.Last, *value) {
		s.Last, s.Called = *value, true
	}
	return nil
}

// advance moves sequences to where others stand.
func advance(ctx context.Context, tx pgx.Tx, now, goals []sequence) error {
	if err := readValues(ctx, tx, now); err != nil {
		return err
	}
	connections, err := maxConnections(ctx, tx)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for i, s := range now {
		value, called := goals[i].Last, goals[i].Called
		if s.past(s.Last, value) || s.Last == value && s.Called {
			continue
		}
		if s.Called || s.Step != goals[i].Step {
			// It is drawn from already, or is in a lane: it steps on as it did, past those
			// who draw meanwhile. Without a source: past what was drawn but not applied.
			value, called = s.reach(value, connections), true
		}
		queueSetval(batch, s, value, called)
	}
	return sendBatch(ctx, tx, batch, "move sequences on")
}

// reach is the sequence's value at or past v as it steps on from where it stands, with a
// margin where the bounds have room for it, and v itself where they have none at all.
func (s sequence) reach(v, maxConnections int64) int64 {
	if v > s.Max || v < s.Min {
		return v
	}
	// Differences may be wider than an int64, not than a uint64.
	size, way, room := uint64(s.Step), uint64(v)-uint64(s.Last), uint64(s.Max)-uint64(s.Last)
	if s.Step < 0 {
		size, way, room = -size, -way, uint64(s.Last)-uint64(s.Min)
	}
	steps := way / size
	if way%size > 0 {
		steps++
	}
	if steps > room/size {
		return v
	}
	hi, margin := bits.Mul64(uint64(s.Cache), uint64(10*maxConnections))
	if hi == 0 && margin <= room/size-steps {
		steps += margin
	}
	return int64(uint64(s.Last) + steps*uint64(s.Step))
}
