package catalog

import (
	"context"
	_ "embed" // the queries
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed relations.sql
var relationsSQL string

//go:embed columns.sql
var columnsSQL string

//go:embed leaves.sql
var leavesSQL string

// Load reads the named tables, three queries for all. What is no table that can
// be migrated is refused, all at once, as migrate.Failures.
func Load(ctx context.Context, q postgres.Querier, names []migrate.TableName) (map[migrate.TableName]*Table, error) {
	tables, refused, err := LoadUsable(ctx, q, names)
	if err == nil && len(refused) > 0 {
		return nil, refused
	}
	return tables, err
}

// LoadUsable is Load where some of the named relations may be unfit: those that can
// be migrated, and apart from them why each other one cannot.
func LoadUsable(ctx context.Context, q postgres.Querier, names []migrate.TableName) (map[migrate.TableName]*Table, migrate.Failures, error) {
	tables, refused, err := loadRelations(ctx, q, names)
	if err != nil {
		return nil, nil, err
	}
	more, err := loadParts(ctx, q, tables)
	return tables, append(refused, more...), err
}

// loadParts reads columns and partitions. A table with a partition that holds no
// rows of its own is taken out, and refused.
func loadParts(ctx context.Context, q postgres.Querier, tables map[migrate.TableName]*Table) (migrate.Failures, error) {
	byOID := make(map[uint32]*Table, len(tables))
	var oids, partitioned []uint32
	for _, t := range tables {
		byOID[t.OID] = t
		oids = append(oids, t.OID)
		if t.Partitioned() {
			partitioned = append(partitioned, t.OID)
		}
	}
	if err := loadColumns(ctx, q, oids, byOID); err != nil {
		return nil, err
	}
	if len(partitioned) == 0 {
		return nil, nil
	}
	refused, unfit, err := loadLeaves(ctx, q, partitioned, byOID)
	for _, oid := range unfit {
		delete(tables, byOID[oid].Name)
	}
	return refused, err
}

func loadRelations(ctx context.Context, q postgres.Querier, names []migrate.TableName) (map[migrate.TableName]*Table, migrate.Failures, error) {
	schemas, relnames := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		schemas[i], relnames[i] = n.Schema, n.Name
	}
	rows, err := q.Query(ctx, relationsSQL, schemas, relnames)
	if err != nil {
		return nil, nil, fmt.Errorf("read tables from the catalog: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanRelation)
	if err != nil {
		return nil, nil, fmt.Errorf("read tables from the catalog: %w", err)
	}
	tables := make(map[migrate.TableName]*Table, len(found))
	var failures migrate.Failures
	for _, r := range found {
		if f := r.refusal(); f != nil {
			failures = append(failures, f)
			continue
		}
		tables[r.Name] = &r.Table
	}
	return tables, failures, nil
}

func loadColumns(ctx context.Context, q postgres.Querier, oids []uint32, byOID map[uint32]*Table) error {
	rows, err := q.Query(ctx, columnsSQL, oids)
	if err != nil {
		return fmt.Errorf("read columns from the catalog: %w", err)
	}
	var oid uint32
	var c Column
	_, err = pgx.ForEachRow(rows, []any{&oid, &c.Name, &c.Num, &c.TypeOID, &c.TypeName, &c.BaseType, &c.BuiltIn,
		&c.NotNull, &c.Generated, &c.Identity, &c.Default, &c.Collation, &c.Deterministic}, func() error {
		byOID[oid].Columns = append(byOID[oid].Columns, c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read columns from the catalog: %w", err)
	}
	return nil
}

// loadLeaves reads the partitions of all roots. A root with a leaf that is no ordinary
// table is unfit.
func loadLeaves(ctx context.Context, q postgres.Querier, roots []uint32, byOID map[uint32]*Table) (refused migrate.Failures, unfit []uint32, err error) {
	rows, err := q.Query(ctx, leavesSQL, roots)
	if err != nil {
		return nil, nil, fmt.Errorf("read partitions from the catalog: %w", err)
	}
	var root uint32
	var leaf Relation
	var kind string
	_, err = pgx.ForEachRow(rows, []any{&root, &leaf.OID, &leaf.Filenode, &leaf.Name.Schema, &leaf.Name.Name, &kind}, func() error {
		if kind == "p" {
			byOID[root].Branches = append(byOID[root].Branches, leaf)
			return nil
		}
		if kind != "r" {
			unfit = append(unfit, root)
			refused = append(refused, migrate.Refuse("table.foreign_partition", leaf.Name.String(),
				"this partition of "+byOID[root].Name.String()+" is no ordinary table", "detach it, or load its rows into an ordinary partition"))
		}
		byOID[root].Leaves = append(byOID[root].Leaves, leaf)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read partitions from the catalog: %w", err)
	}
	return refused, unfit, nil
}
