package layout

import (
	"slices"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/migrate"
)

// Layout is the spec's tables on a real source.
type Layout struct {
	Spec   *migrate.Spec
	Tables []*Table // in the order of the spec; No = index + 1
}

// Table is one migrated table.
type Table struct {
	No       int
	Spec     migrate.Table
	Source   *catalog.Table
	PK       []catalog.Column
	Key      *catalog.Column // own key, or the root's; nil if everywhere or, with one shard, without a key
	Family   string          // of Key: int, uuid or text; "" without one
	Parent   *Table          // of a derived table
	Children []*Table        // derived from this one, in the order of the spec
	Via      *catalog.Column // the derived table's column that refers to the parent's primary key
	StoreAs  string          // derived, optional: the column on the databases that holds the key
	NoKey    migrate.Stray   // what becomes of a row that has no usable key
}

// Everywhere reports whether each database has a full copy.
func (t *Table) Everywhere() bool { return t.Spec.Everywhere }

// Returns reports whether what a database writes to the table can be brought back to the
// source: not where the spec says rollback: none for it, or for a table through which its
// key is found.
func (t *Table) Returns() bool {
	return !slices.ContainsFunc(append(t.Chain(), t), func(c *Table) bool { return c.Spec.Rollback == "none" })
}

// Derived reports whether the key is found through a parent.
func (t *Table) Derived() bool { return t.Parent != nil }

// Name is the table's name on the source, as messages print it.
func (t *Table) Name() string { return t.Spec.Name.String() }

// TargetName is the table's name on the databases, without schema.
func (t *Table) TargetName() string { return t.Spec.TargetName() }

// Copied are the columns that a copy inserts: all but generated ones, in attnum
// order.
func (t *Table) Copied() []catalog.Column {
	out := make([]catalog.Column, 0, len(t.Source.Columns))
	for _, c := range t.Source.Columns {
		if !c.Generated {
			out = append(out, c)
		}
	}
	return out
}

// Root is the table at the end of the parent chain: the table itself unless it
// is derived.
func (t *Table) Root() *Table {
	for t.Parent != nil {
		t = t.Parent
	}
	return t
}

// Chain lists the parents, the nearest first.
func (t *Table) Chain() []*Table {
	var out []*Table
	for p := t.Parent; p != nil; p = p.Parent {
		out = append(out, p)
	}
	return out
}

// Descendants lists all tables derived from this one, parents before children.
func (t *Table) Descendants() []*Table {
	var out []*Table
	for _, c := range t.Children {
		out = append(append(out, c), c.Descendants()...)
	}
	return out
}

// OneWay are the sharded tables that cannot be brought back: with them there is no rollback.
func (l *Layout) OneWay() []*Table {
	return slices.DeleteFunc(slices.Clone(l.Tables), func(t *Table) bool { return t.Everywhere() || t.Returns() })
}

// Table finds a table by its name on the source; nil if there is none.
func (l *Layout) Table(name migrate.TableName) *Table {
	for _, t := range l.Tables {
		if t.Spec.Name == name {
			return t
		}
	}
	return nil
}
