package target

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// tableItem makes a table at a location: columns, checks, primary key, partitions,
// storage, comments, owner, closed fence.
func (p *plan) tableItem(t *blueprint.Table, loc migrate.Location) item {
	name := p.at(loc, t.Root())
	out := item{kind: "table", name: name, group: loc.Schema}
	for _, r := range t.Relations {
		create := ddl.Statement{SQL: p.createTable(t, r, loc)}
		if r.Parent == nil {
			create.Object = p.object("table", name, "DROP TABLE IF EXISTS "+name)
		}
		out.statements = append(out.statements, create, fence.Closed(p.l, p.at(loc, r)))
		if r.Comment != "" {
			out.statements = append(out.statements, ddl.Alter("COMMENT ON TABLE %s IS %s", p.at(loc, r), postgres.Literal(r.Comment)))
		}
		out.statements = append(out.statements, p.roles.owner("TABLE", p.at(loc, r), r.Owner)...)
	}
	out.statements = append(out.statements, columnSettings(t, name)...)
	return item{kind: out.kind, name: out.name, group: out.group, statements: append(out.statements, p.ownedSequences(t, loc)...)}
}

func (p *plan) createTable(t *blueprint.Table, r *blueprint.Relation, loc migrate.Location) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if r.Unlogged {
		b.WriteString("UNLOGGED ")
	}
	b.WriteString("TABLE " + p.at(loc, r))
	var parts []string
	if r.Parent == nil {
		parts = append(p.columns(t), p.primaryKey(r))
	} else {
		b.WriteString(" PARTITION OF " + p.at(loc, r.Parent))
	}
	for _, c := range r.Checks {
		// One that is not validated on the source may not hold for rows that are copied.
		if c.Validated {
			parts = append(parts, constraint(c.Name, c))
		}
	}
	if len(parts) > 0 {
		b.WriteString(" (\n  " + strings.Join(parts, ",\n  ") + ")")
	}
	if r.Parent != nil {
		b.WriteString(" " + r.Bound)
	}
	if r.Key != "" {
		b.WriteString(" PARTITION BY " + r.Key)
	}
	return b.String() + with(r.Options)
}

func (p *plan) columns(t *blueprint.Table) []string {
	var out []string
	for _, c := range t.Columns {
		out = append(out, p.column(c))
	}
	if store := t.Layout.StoreAs; store != "" {
		key := t.Layout.Key
		collate := ""
		if key.Collation != "" {
			collate = " COLLATE " + key.Collation
		}
		out = append(out, postgres.Ident(store)+" "+bareType(*key)+collate)
	}
	return out
}

func (p *plan) column(c blueprint.Column) string {
	def := postgres.Ident(c.Name) + " " + c.Type
	if c.Collation != "" {
		def += " COLLATE " + c.Collation
	}
	switch {
	case c.Sequence != "":
		def += fmt.Sprintf(" DEFAULT nextval(%s::regclass)", postgres.Literal(p.sequenceOf(c)))
	case c.Generated == "s":
		def += " GENERATED ALWAYS AS (" + c.Default + ") STORED"
	case c.Generated == "v":
		def += " GENERATED ALWAYS AS (" + c.Default + ") VIRTUAL"
	case c.Default != "":
		def += " DEFAULT " + c.Default
	}
	if c.NotNullName != "" {
		def += " CONSTRAINT " + postgres.Ident(c.NotNullName)
	}
	if c.NotNull {
		def += " NOT NULL"
	}
	return def
}

// sequenceOf is the sequence that an identity column draws from.
func (p *plan) sequenceOf(c blueprint.Column) string {
	for _, s := range p.b.Sequences {
		if s.Regclass == c.Sequence {
			return p.sequence(s)
		}
	}
	return c.Sequence
}

// primaryKey is made before the copy, which needs it to tell what is there.
func (p *plan) primaryKey(r *blueprint.Relation) string {
	for _, k := range r.Keys {
		if k.Kind == 'p' {
			return constraint(p.indexes[indexRef{r, k.Name}], k)
		}
	}
	return "" // a table without one is refused long before
}

func constraint(name string, c blueprint.Constraint) string {
	return "CONSTRAINT " + postgres.Ident(name) + " " + c.Def + with(c.Options)
}

// with writes storage parameters, which are stored as name=value.
func with(options []string) string {
	if len(options) == 0 {
		return ""
	}
	parts := make([]string, len(options))
	for i, o := range options {
		name, value, _ := strings.Cut(o, "=")
		parts[i] = name + " = " + postgres.Literal(value)
	}
	return " WITH (" + strings.Join(parts, ", ") + ")"
}

// columnSettings are those of columns that CREATE TABLE cannot say. On a
// partitioned table they reach the partitions.
func columnSettings(t *blueprint.Table, table string) []ddl.Statement {
	var alter []string
	var out []ddl.Statement
	for _, c := range t.Columns {
		column := "ALTER COLUMN " + postgres.Ident(c.Name)
		if c.Storage != "" {
			alter = append(alter, column+" SET STORAGE "+c.Storage)
		}
		if c.Compress != "" {
			alter = append(alter, column+" SET COMPRESSION "+c.Compress)
		}
		if c.Statistics != "" {
			alter = append(alter, column+" SET STATISTICS "+c.Statistics)
		}
		if len(c.Options) > 0 {
			alter = append(alter, column+" SET "+strings.TrimPrefix(with(c.Options), " WITH "))
		}
		if c.Comment != "" {
			out = append(out, ddl.Alter("COMMENT ON COLUMN %s.%s IS %s", table, postgres.Ident(c.Name), postgres.Literal(c.Comment)))
		}
	}
	if len(alter) > 0 {
		out = append(out, ddl.Statement{SQL: "ALTER TABLE " + table + " " + strings.Join(alter, ", ")})
	}
	return out
}

// ownedSequences ties a serial's sequence to its column where the table has one
// place in the database, so that pg_get_serial_sequence finds it as before.
func (p *plan) ownedSequences(t *blueprint.Table, loc migrate.Location) []ddl.Statement {
	if len(p.locations(t)) > 1 || p.l.Spec.Shards.SchemaPerShard() && !t.Layout.Everywhere() {
		return nil
	}
	var out []ddl.Statement
	for _, s := range p.b.Sequences {
		schema, _ := SequenceName(p.l, s.Name.Schema, s.Name.Name)
		if s.OwnedBy != nil && s.OwnedBy.Table == t.Layout.Spec.Name && schema == loc.Schema {
			out = append(out, ddl.Alter("ALTER SEQUENCE %s OWNED BY %s.%s", p.sequence(s), p.at(loc, t.Root()), postgres.Ident(s.OwnedBy.Column)))
		}
	}
	return out
}
