package proposal

import (
	"context"
	_ "embed" // the queries
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed relations.sql
var relationsSQL string

//go:embed columns.sql
var columnsSQL string

//go:embed links.sql
var linksSQL string

// Source is what a catalog says of an application's tables.
type Source struct {
	Database string
	Tables   []*Table  // that can be migrated, by name
	Refused  []LeftOut // relations that cannot
	Links    []Link    // foreign keys of Tables
}

// Table is a table that can be migrated.
type Table struct {
	*catalog.Table
	Rows     int64              // estimated; -1 is not known
	Bytes    int64              // with indexes and partitions
	Distinct map[string]float64 // by column, estimated as pg_stats has it; absent: not known
	Leads    map[string]bool    // columns that lead an index
}

// Link is a foreign key.
type Link struct {
	From, To migrate.TableName
	Columns  []string // of From
	Referred []string // of To
}

// LeftOut is a relation that the spec does not migrate.
type LeftOut struct {
	Name   migrate.TableName `json:"name"`
	Reason string            `json:"reason"`
}

// relation is one that was found, before it is known to be fit.
type relation struct {
	name        migrate.TableName
	extension   string
	rows, bytes int64
}

// Read looks at the tables of some schemas; none: of all that are the application's.
// The session is one of package postgres.
func Read(ctx context.Context, q postgres.Querier, schemas []string) (*Source, error) {
	s := &Source{}
	if err := q.QueryRow(ctx, "SELECT current_database()").Scan(&s.Database); err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	found, err := readRelations(ctx, q, schemas)
	if err != nil {
		return nil, err
	}
	var names []migrate.TableName
	for _, r := range found {
		if r.extension != "" {
			s.Refused = append(s.Refused, LeftOut{r.name, "belongs to the extension " + r.extension})
			continue
		}
		names = append(names, r.name)
	}
	tables, refused, err := catalog.LoadUsable(ctx, q, names)
	if err != nil {
		return nil, err
	}
	s.sort(found, tables, refused)
	if err := s.readColumns(ctx, q); err != nil {
		return nil, err
	}
	return s, s.readLinks(ctx, q)
}

// sort keeps the order of names: of what is fit, and of what is not.
func (s *Source) sort(found []relation, tables map[migrate.TableName]*catalog.Table, refused migrate.Failures) {
	for _, r := range found {
		if t := tables[r.name]; t != nil {
			s.Tables = append(s.Tables, &Table{Table: t, Rows: r.rows, Bytes: r.bytes, Distinct: map[string]float64{}, Leads: map[string]bool{}})
		}
	}
	for _, f := range refused {
		name, err := migrate.ParseTableName(f.Object)
		if err != nil {
			name = migrate.TableName{Name: f.Object}
		}
		s.Refused = append(s.Refused, LeftOut{name, f.Message + " (" + f.Hint + ")"})
	}
}

func (s *Source) oids() (oids []uint32, byOID map[uint32]*Table) {
	byOID = map[uint32]*Table{}
	for _, t := range s.Tables {
		oids, byOID[t.OID] = append(oids, t.OID), t
	}
	return oids, byOID
}

func readRelations(ctx context.Context, q postgres.Querier, schemas []string) ([]relation, error) {
	if schemas == nil {
		schemas = []string{}
	}
	rows, err := q.Query(ctx, relationsSQL, schemas)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (rel relation, err error) {
		err = r.Scan(&rel.name.Schema, &rel.name.Name, &rel.extension, &rel.rows, &rel.bytes)
		return rel, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	return found, nil
}

func (s *Source) readColumns(ctx context.Context, q postgres.Querier) error {
	oids, byOID := s.oids()
	rows, err := q.Query(ctx, columnsSQL, oids)
	if err != nil {
		return fmt.Errorf("read statistics of columns: %w", err)
	}
	var oid uint32
	var column string
	var distinct *float64
	var leads bool
	_, err = pgx.ForEachRow(rows, []any{&oid, &column, &distinct, &leads}, func() error {
		t := byOID[oid]
		t.Leads[column] = leads
		if distinct != nil {
			t.Distinct[column] = *distinct
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read statistics of columns: %w", err)
	}
	return nil
}

func (s *Source) readLinks(ctx context.Context, q postgres.Querier) error {
	oids, _ := s.oids()
	rows, err := q.Query(ctx, linksSQL, oids)
	if err != nil {
		return fmt.Errorf("read foreign keys: %w", err)
	}
	s.Links, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l Link, err error) {
		err = r.Scan(&l.From.Schema, &l.From.Name, &l.To.Schema, &l.To.Name, &l.Columns, &l.Referred)
		return l, err
	})
	if err != nil {
		return fmt.Errorf("read foreign keys: %w", err)
	}
	return nil
}

// table finds a table by name; nil if there is none.
func (s *Source) table(name migrate.TableName) *Table {
	for _, t := range s.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}
