package blueprint

import (
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// Blueprint is how the tables of a layout are defined on the source.
type Blueprint struct {
	Layout    *layout.Layout
	Tables    []*Table // in the order of the spec
	Sequences []Sequence
	Needs     []Need  // types, functions and collations that tables need, in order of creation
	Handlers  []Need  // functions of triggers, with what they need beyond Needs, in order of creation
	Grants    []Grant // on schemas, tables, columns, sequences and functions

	// Extensions that any of these need, as "name in schema". They are never made.
	Extensions []string
}

// Table is a migrated table: its relations (the table itself, then partitions,
// parents before children) and what belongs to the whole.
type Table struct {
	Layout    *layout.Table
	Relations []*Relation
	Columns   []Column
	Policies  []Policy
}

// Root is the table itself.
func (t *Table) Root() *Relation { return t.Relations[0] }

// Relation is the table or one of its partitions.
type Relation struct {
	OID      uint32
	Name     migrate.TableName
	Parent   *Relation // nil for the table itself
	Key      string    // of a partitioned one: "RANGE (created)"
	Bound    string    // of a partition: "FOR VALUES …" or "DEFAULT"
	Options  []string  // storage parameters, name=value; those of TOAST begin with toast.
	Unlogged bool
	Owner    string
	Comment  string
	Identity byte // replica identity: d, n, f or i

	Checks      []Constraint // its own, not its parent's; and NOT NULL that is not validated
	Keys        []Constraint // primary, unique, exclusion; its own
	Indexes     []Index      // without those of Keys; its own
	ForeignKeys []ForeignKey // its own
	Triggers    []Trigger    // with those that the parent gave it
}

// Column is a column of a table, as CREATE TABLE needs it.
type Column struct {
	Name        string
	Type        string
	Collation   string // quoted and qualified, or ""
	NotNull     bool
	NotNullName string // of the constraint, where it is not the server's own
	Default     string // or the expression of a generated column
	Generated   string // "s" stored, "v" virtual, or ""
	Sequence    string // of an identity column: regclass text of its sequence
	Storage     string // where it is not the type's own
	Compress    string // pglz or lz4 where set
	Statistics  string // target where set
	Options     []string
	Comment     string
}

// Constraint is one that its definition says all of: no table is named in it.
type Constraint struct {
	Name      string
	Kind      byte // c, n, p, u, x
	Def       string
	Options   []string // of its index
	Validated bool
	Replica   bool // its index is the replica identity
}

// Index is an index; Rest is what follows USING.
type Index struct {
	Name    string
	Unique  bool
	Rest    string
	Replica bool // the replica identity
}

// ForeignKey is taken apart, since its definition names the other table.
type ForeignKey struct {
	Name       string
	To         migrate.TableName
	Columns    []string
	Referred   []string
	Match      byte     // f full, s simple
	OnUpdate   byte     // a no action, r restrict, c cascade, n set null, d set default
	OnDelete   byte     // the same
	SetColumns []string // of ON DELETE SET …, where it names some
	Deferrable bool
	Deferred   bool
	Validated  bool
	Enforced   bool
	Period     bool // the last column of both sides is a range
}

// Trigger is one of the user's triggers. Before and After are its definition on
// both sides of the table's name.
type Trigger struct {
	Name          string
	Before, After string
	State         byte // O, A, R or D
	Inherited     bool // made by the server for a partition
}

// Policy is a row security policy; its expressions name tables without a schema
// where a search_path of the source's schemas finds them.
type Policy struct {
	Name       string
	Permissive bool
	Command    string // ALL, SELECT, …
	Roles      []string
	Using      string
	Check      string
}

// Sequence is one that a table draws from.
type Sequence struct {
	Name      migrate.TableName
	Regclass  string // as a constant of type regclass prints it
	Type      string
	Increment int64
	Min, Max  int64
	Start     int64
	Cache     int64
	Cycle     bool
	Owner     string
	OwnedBy   *ColumnRef // nil if no column owns it
}

// ColumnRef names a column of a migrated table.
type ColumnRef struct {
	Table  migrate.TableName
	Column string
}

// Need is an object that must be on a database before what uses it.
type Need struct {
	Kind   string // type, function, collation, schema
	Name   string // quoted; of a function with its argument types
	Schema string // unquoted
	Create string // one or more statements
	Owner  string
}

// Grant is one privilege of one role.
type Grant struct {
	Kind      string // SCHEMA, TABLE, COLUMN, SEQUENCE, FUNCTION
	Object    migrate.TableName
	Function  string // quoted, with argument types
	Column    string
	Grantee   string // "" is PUBLIC
	Privilege string
	Grantable bool
}
