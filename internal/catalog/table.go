package catalog

import (
	"slices"

	"github.com/shardctl/shardctl/migrate"
)

// Table is an ordinary or a partitioned table.
type Table struct {
	OID        uint32
	Filenode   uint32 // 0 for a partitioned table; changes with each rewrite
	Name       migrate.TableName
	Kind       byte // 'r' ordinary, 'p' partitioned
	Owner      string
	RLS        bool       // row level security is enabled
	ForceRLS   bool       // it applies to the owner too
	Columns    []Column   // live ones, in attnum order
	PrimaryKey []string   // in key order
	KeyEqual   []string   // for each of PrimaryKey, the equality its index knows: OPERATOR(schema.=)
	Leaves     []Relation // all leaf partitions, by name; an ordinary table has none
	Branches   []Relation // partitions that are partitioned themselves, by name
}

// Partitioned reports whether rows live in leaves.
func (t *Table) Partitioned() bool { return t.Kind == 'p' }

// Column finds a column by name; nil if there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Heaps are the relations that hold the rows: the leaves, or the table itself.
func (t *Table) Heaps() []Relation {
	if t.Partitioned() {
		return t.Leaves
	}
	return []Relation{{OID: t.OID, Filenode: t.Filenode, Name: t.Name}}
}

// Relations are all relations that can be named to write rows: the table itself,
// then its branches, then its leaves.
func (t *Table) Relations() []Relation {
	self := Relation{OID: t.OID, Filenode: t.Filenode, Name: t.Name}
	return slices.Concat([]Relation{self}, t.Branches, t.Leaves)
}

// Relation is one relation by number and name.
type Relation struct {
	OID      uint32
	Filenode uint32
	Name     migrate.TableName
}

// Column is one live column.
type Column struct {
	Name          string
	Num           int16
	TypeOID       uint32
	TypeName      string // with modifiers, schema-qualified unless built in
	BaseType      string // TypeName without modifiers, domains resolved
	BuiltIn       bool   // its binary form means the same on every server
	NotNull       bool
	Generated     bool   // computed by the server; Default has the expression
	Identity      string // "a" always, "d" by default, else ""
	Default       string // expression, or ""
	Collation     string // quoted and qualified, where it is not the type's own; else ""
	Deterministic bool   // equal exactly when the bytes are
}
