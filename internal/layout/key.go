package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/migrate"
)

// families are the types that hash, with the family whose values hash alike.
var families = map[string]string{
	"smallint": "int", "integer": "int", "bigint": "int", "uuid": "uuid", "text": "text", "character varying": "text", "character": "text",
}

// ours begins the names of columns that statements add to a table's own.
const ours = "shardctl_"

// reserved refuses a column that could not be told from ours.
func (l *Layout) reserved(t *Table) *migrate.Failure {
	for _, name := range append(Names(t.Source.Columns), t.StoreAs) {
		if strings.HasPrefix(name, ours) {
			return migrate.Refuse("column.reserved", t.Name()+"."+name, "names that begin with "+ours+" are shardctl's own", "choose another name for the column")
		}
	}
	return nil
}

func (l *Layout) primaryKey(t *Table) *migrate.Failure {
	for _, name := range t.Source.PrimaryKey {
		c := t.Source.Column(name)
		if c.Generated {
			return migrate.Refuse("table.generated_primary_key", t.Name()+"."+name, "a column of its primary key is generated: a row cannot be written by such a key",
				"make it an ordinary column that a trigger fills, or choose another primary key")
		}
		t.PK = append(t.PK, *c)
	}
	return nil
}

func (l *Layout) version(t *Table) *migrate.Failure {
	if v := t.Spec.Version; v != "" && t.Source.Column(v) == nil {
		return missingColumn("version.missing_column", t, v)
	}
	return nil
}

// ownKey finds the key column of a table that has one of its own.
func (l *Layout) ownKey(t *Table) *migrate.Failure {
	name := t.Spec.Key.Column
	if t.Spec.Everywhere || name == "" {
		return nil
	}
	c := t.Source.Column(name)
	if c == nil {
		return missingColumn("key.missing_column", t, name)
	}
	t.Key, t.Family = c, families[c.BaseType]
	if t.Family == "" {
		return migrate.Refuse("key.type", t.Name()+"."+name, "a key of type "+c.TypeName+" does not hash",
			"use a column of type smallint, integer, bigint, uuid, text, varchar or char")
	}
	if c.Generated {
		return migrate.Refuse("key.generated", t.Name()+"."+name, "the key is a generated column, which is not copied: a row's shard would not be known before it is written",
			"use an ordinary column")
	}
	if !c.Deterministic {
		return migrate.Refuse("key.collation", t.Name()+"."+name, "the key's collation is not deterministic: equal keys may hash apart",
			"give the column a deterministic collation")
	}
	return nil
}

// link finds the parent of a derived table and the column that refers to it.
func (l *Layout) link(t *Table) *migrate.Failure {
	k := t.Spec.Key
	if k.From == (migrate.TableName{}) {
		return nil
	}
	parent := l.Table(k.From)
	if parent == nil || parent.Spec.Everywhere {
		return migrate.Refuse("key.parent", t.Name(), "its parent "+k.From.String()+" is not among the sharded tables", "add it to tables: with a key")
	}
	via := t.Source.Column(k.Via)
	if via == nil {
		return missingColumn("key.missing_column", t, k.Via)
	}
	if len(parent.PK) != 1 {
		return migrate.Refuse("key.via", t.Name()+"."+k.Via,
			fmt.Sprintf("one column cannot refer to the primary key of %s (%s)", parent.Name(), strings.Join(parent.Source.PrimaryKey, ", ")),
			"give the table a key of its own, or derive it from a table with a primary key of one column")
	}
	if !comparable(*via, parent.PK[0]) {
		return migrate.Refuse("key.via", t.Name()+"."+k.Via, fmt.Sprintf("type %s does not compare with %s.%s of type %s",
			via.TypeName, parent.Name(), parent.PK[0].Name, parent.PK[0].TypeName), "name the column that refers to the parent's primary key")
	}
	t.Parent, t.Via = parent, via
	parent.Children = append(parent.Children, t)
	return nil
}

func comparable(a, b catalog.Column) bool {
	fa, fb := families[a.BaseType], families[b.BaseType]
	return a.BaseType == b.BaseType || fa != "" && fa == fb
}

// inheritKey gives a derived table the key of its root.
func (l *Layout) inheritKey(t *Table) *migrate.Failure {
	root, depth := t, 0
	for root.Parent != nil && depth <= migrate.MaxChain {
		root, depth = root.Parent, depth+1
	}
	switch {
	case depth > migrate.MaxChain:
		return migrate.Refuse("key.depth", t.Name(), fmt.Sprintf("its key is more than %d parents away", migrate.MaxChain), "derive it from a table nearer to the key")
	case root.Key == nil && !t.Spec.Everywhere && l.Spec.Shards.Count > 1:
		return migrate.Refuse("key.none", t.Name(), "it has no key", "give the table a key, or make it everywhere: true")
	}
	t.Key, t.Family = root.Key, root.Family
	return nil
}

// family refuses a group whose keys hash in different ways.
func (l *Layout) family(t *Table) *migrate.Failure {
	first := slices.IndexFunc(l.Tables, func(o *Table) bool { return o.Family != "" })
	if t.Family == "" || t.Derived() || t.Family == l.Tables[first].Family {
		return nil
	}
	other := l.Tables[first].Root()
	return migrate.Refuse("key.family", t.Name()+"."+t.Key.Name, fmt.Sprintf("type %s hashes differently from %s.%s of type %s",
		t.Key.TypeName, other.Name(), other.Key.Name, other.Key.TypeName), "all keys of a migration need one family: integers, uuid, or text")
}

func (l *Layout) storeAs(t *Table) *migrate.Failure {
	if t.StoreAs == "" {
		return nil
	}
	if t.Source.Column(t.StoreAs) != nil {
		return migrate.Refuse("key.store_as", t.Name()+"."+t.StoreAs, "the source's table already has this column", "choose another name for store_as, or use the column as the key")
	}
	if t.Key == nil {
		return migrate.Refuse("key.store_as", t.Name()+"."+t.StoreAs, "there is no key to store", "give "+t.Root().Name()+" a key")
	}
	return nil
}

func missingColumn(code string, t *Table, column string) *migrate.Failure {
	return migrate.Refuse(code, t.Name()+"."+column, "there is no such column on the source", "correct the name in the spec, or add the column")
}
