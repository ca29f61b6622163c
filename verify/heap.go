package verify

import (
	"context"
	_ "embed" // the query
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed heaps.sql
var heapsSQL string

// heap is a relation that holds rows of a table: the table, or a leaf partition.
type heap struct {
	table    string // quoted
	oid      uint32
	filenode uint32 // changes with each rewrite
	pages    int64
	rows     int64 // estimated
	weight   int64 // how many times as large as its pages it is with what is stored apart from them
	place    place // on a database
}

// sourceHeaps lists what holds a table's rows on the source or its replica.
func (v *Verifier) sourceHeaps(ctx context.Context, s *server, t *layout.Table) ([]heap, error) {
	return listHeaps(ctx, s, []migrate.TableName{t.Spec.Name}, []place{{}})
}

// targetHeaps lists what holds a table's rows on a database, place by place.
func (v *Verifier) targetHeaps(ctx context.Context, d *server, t *layout.Table) ([]heap, error) {
	places := v.places(t, d)
	names := make([]migrate.TableName, len(places))
	for i, p := range places {
		names[i] = migrate.TableName{Schema: p.Schema, Name: t.TargetName()}
	}
	return listHeaps(ctx, d, names, places)
}

func listHeaps(ctx context.Context, s *server, names []migrate.TableName, places []place) ([]heap, error) {
	schemas, relations := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		schemas[i], relations[i] = n.Schema, n.Name
	}
	var heaps []heap
	seen := make([]bool, len(names))
	err := s.with(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, heapsSQL, schemas, relations)
		if err != nil {
			return err
		}
		var h heap
		var ord, analyzed int64
		var schema, relation string
		var tuples float64
		_, err = pgx.ForEachRow(rows, []any{&ord, &schema, &relation, &h.oid, &h.filenode, &h.pages, &tuples, &analyzed, &h.weight}, func() error {
			h.table, h.place = postgres.Table(schema, relation), places[ord-1]
			h.rows = estimate(tuples, analyzed, h.pages)
			heaps = append(heaps, h)
			seen[ord-1] = true
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables of %s: %w", s.Name, err)
	}
	if i := slices.Index(seen, false); i >= 0 {
		return nil, migrate.Refuse("verify.no_table", s.Name+": "+names[i].String(), "there is no such table", "run shardctl prepare")
	}
	return heaps, nil
}

// estimate scales the row count of the last ANALYZE to the present size; without
// one it takes rows of 100 bytes.
func estimate(tuples float64, analyzed, pages int64) int64 {
	if analyzed == 0 || tuples == 0 {
		return pages * 80
	}
	return int64(tuples / float64(analyzed) * float64(pages))
}

// rewritten reports whether a relation got new storage meanwhile: then its rows
// moved without being written, and what was read in physical order is worthless.
func rewritten(before, after []heap) bool {
	return !slices.EqualFunc(before, after, func(a, b heap) bool { return a.oid == b.oid && a.filenode == b.filenode })
}

func totalRows(heaps []heap) (n int64) {
	for _, h := range heaps {
		n += h.rows
	}
	return n
}
