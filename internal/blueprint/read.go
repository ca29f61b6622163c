package blueprint

import (
	"context"
	_ "embed" // the queries
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

//go:embed relations.sql
var relationsSQL string

//go:embed columns.sql
var columnsSQL string

//go:embed sequences.sql
var sequencesSQL string

// Read reads the definitions of a layout's tables, some ten queries in all.
func Read(ctx context.Context, source postgres.Querier, l *layout.Layout) (*Blueprint, error) {
	b := &Blueprint{Layout: l}
	r := &reader{q: source, relations: map[uint32]*Relation{}, tables: map[uint32]*Table{}}
	for _, t := range l.Tables {
		r.roots = append(r.roots, t.Source.OID)
		r.tables[t.Source.OID] = &Table{Layout: t}
		b.Tables = append(b.Tables, r.tables[t.Source.OID])
	}
	for _, step := range []func(context.Context) error{
		r.readRelations, r.readColumns, r.readConstraints, r.readForeignKeys, r.readIndexes, r.readTriggers,
		func(ctx context.Context) error { return r.readPolicies(ctx, l) },
		func(ctx context.Context) (err error) { b.Sequences, err = r.readSequences(ctx); return err },
		func(ctx context.Context) (err error) { b.Needs, err = r.readNeeds(ctx, false); return err },
		func(ctx context.Context) (err error) { b.Handlers, err = r.readNeeds(ctx, true); return err },
		func(ctx context.Context) (err error) { b.Grants, err = r.readGrants(ctx, b); return err },
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.Handlers = without(b.Handlers, b.Needs)
	slices.Sort(r.extensions)
	b.Extensions = slices.Compact(r.extensions)
	return b, nil
}

// reader is one reading.
type reader struct {
	q         postgres.Querier
	roots     []uint32
	oids      []uint32 // of all relations
	tables    map[uint32]*Table
	relations map[uint32]*Relation

	extensions []string
}

// each runs a query over rows that scan fills.
func (r *reader) each(ctx context.Context, what, sql string, args []any, scans []any, row func() error) error {
	rows, err := r.q.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("read %s of the source: %w", what, err)
	}
	if _, err := pgx.ForEachRow(rows, scans, row); err != nil {
		return fmt.Errorf("read %s of the source: %w", what, err)
	}
	return nil
}

func (r *reader) readRelations(ctx context.Context) error {
	var root, parent uint32
	var v Relation
	var identity string
	scans := []any{&root, &v.OID, &parent, &v.Name.Schema, &v.Name.Name, &v.Key, &v.Bound, &v.Options, &v.Unlogged, &v.Owner, &v.Comment, &identity}
	return r.each(ctx, "tables", relationsSQL, []any{r.roots}, scans, func() error {
		rel := v
		rel.Identity = identity[0]
		rel.Parent = r.relations[parent]
		r.relations[rel.OID] = &rel
		r.tables[root].Relations = append(r.tables[root].Relations, &rel)
		r.oids = append(r.oids, rel.OID)
		return nil
	})
}

func (r *reader) readColumns(ctx context.Context) error {
	var root uint32
	var c Column
	scans := []any{&root, &c.Name, &c.Type, &c.Collation, &c.NotNull, &c.NotNullName, &c.Default, &c.Generated, &c.Sequence, &c.Storage, &c.Compress, &c.Statistics, &c.Options, &c.Comment}
	return r.each(ctx, "columns", columnsSQL, []any{r.roots}, scans, func() error {
		r.tables[root].Columns = append(r.tables[root].Columns, c)
		return nil
	})
}

func (r *reader) readSequences(ctx context.Context) (out []Sequence, err error) {
	var s Sequence
	var by ColumnRef
	scans := []any{&s.Name.Schema, &s.Name.Name, &s.Regclass, &s.Type, &s.Increment, &s.Min, &s.Max, &s.Start, &s.Cache, &s.Cycle, &s.Owner,
		&by.Table.Schema, &by.Table.Name, &by.Column}
	err = r.each(ctx, "sequences", sequencesSQL, []any{r.roots}, scans, func() error {
		one := s
		if by.Column != "" {
			owner := by
			one.OwnedBy = &owner
		}
		out = append(out, one)
		return nil
	})
	return out, err
}
