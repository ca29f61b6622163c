package layout

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/shardsql"
)

// KeyFrom gives the SQL, on the source, for the key of a row that is aliased
// alias: joins to append after the row's table, and the key's expression. A
// table with its own key needs no join; one without a key has the expression
// NULL. The joins' aliases begin with alias, so that two rows may be looked up
// in one statement.
func (t *Table) KeyFrom(alias string) (joins, keyExpr string) {
	if t.Key == nil {
		return "", "NULL"
	}
	var b strings.Builder
	row, depth := alias, 0
	for ; t.Parent != nil; t = t.Parent {
		depth++
		row = t.join(&b, row, alias, depth, t.Parent.QualifiedSource())
	}
	return b.String(), row + "." + postgres.Ident(t.Key.Name)
}

// TargetKeyFrom is KeyFrom on a database, where all tables of the chain are in
// one schema and the first stored key ends the search.
func (t *Table) TargetKeyFrom(alias, schema string) (joins, keyExpr string) {
	if t.Key == nil {
		return "", "NULL"
	}
	var b strings.Builder
	row, depth := alias, 0
	for ; t.Parent != nil && t.StoreAs == ""; t = t.Parent {
		depth++
		row = t.join(&b, row, alias, depth, postgres.Table(schema, t.Parent.TargetName()))
	}
	return b.String(), row + "." + postgres.Ident(t.TargetKeyColumn())
}

// TargetKeyColumn is the column on the databases that holds the key itself: its
// own or the stored one; "" if the table has none.
func (t *Table) TargetKeyColumn() string {
	switch {
	case t.StoreAs != "":
		return t.StoreAs
	case t.Parent == nil && t.Key != nil:
		return t.Key.Name
	}
	return ""
}

func (t *Table) join(b *strings.Builder, row, alias string, depth int, parent string) string {
	next := fmt.Sprintf("%s_p%d", alias, depth)
	fmt.Fprintf(b, " LEFT JOIN %s %s ON %s", parent, next, t.RefersTo(row, next))
	return next
}

// RefersTo is the condition that a row of the derived table t refers to a row
// of its parent.
func (t *Table) RefersTo(row, parent string) string {
	pk := t.Parent.PK[0]
	equal := "OPERATOR(pg_catalog.=)"
	if t.Via.BaseType == pk.BaseType {
		equal = t.Parent.Source.KeyEqual[0]
	}
	return fmt.Sprintf("%s.%s %s %s.%s", parent, postgres.Ident(pk.Name), equal, row, postgres.Ident(t.Via.Name))
}

// SamePK is the condition that two rows have the same primary key.
func (t *Table) SamePK(a, b string) string {
	parts := make([]string, len(t.PK))
	for i, c := range t.PK {
		parts[i] = fmt.Sprintf("%s.%s %s %s.%s", a, postgres.Ident(c.Name), t.Source.KeyEqual[i], b, postgres.Ident(c.Name))
	}
	return strings.Join(parts, " AND ")
}

// PKNames are the names of the primary key's columns, in key order.
func (t *Table) PKNames() []string { return Names(t.PK) }

// Names are the names of columns.
func Names(columns []catalog.Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// ShardSQL is the expression of a key's shard: NULL for a row without a key,
// unless the spec gives such rows a shard. With one shard it is 0.
func (l *Layout) ShardSQL(t *Table, keyExpr string) string {
	if l.Spec.Shards.Count == 1 {
		return "0"
	}
	expr := shardsql.Expr(keyExpr, t.Family, l.Spec.Shards.Count)
	if t.NoKey.Policy == "shard" {
		return "COALESCE(" + expr + ", " + strconv.Itoa(t.NoKey.Shard) + ")"
	}
	return expr
}
