package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// prepareItems are all that is made before the copy, in order. What all tables need
// has no group of its own and is made first, as one transaction.
func (p *plan) prepareItems() []item {
	var out []item
	for _, s := range p.schemas() {
		out = append(out, p.schemaItem(s))
	}
	for i := range p.b.Needs {
		out = append(out, p.needItem(&p.b.Needs[i]))
	}
	for _, s := range p.b.Sequences {
		out = append(out, p.sequenceItem(s))
	}
	out = append(out, item{statements: fence.DatabaseFunctions(p.l, p.database)})
	for _, t := range p.b.Tables {
		out = append(out, item{statements: p.tombstones(t.Layout)})
	}
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			out = append(out, p.tableItem(t, loc))
		}
	}
	return out
}

// Schemas are all that objects of a database live in.
func Schemas(b *blueprint.Blueprint, database string) []string {
	return (&plan{b: b, l: b.Layout, database: database}).schemas()
}

// schemas are all that our objects live in, each once: locations, then those of
// types, functions and sequences.
func (p *plan) schemas() []string {
	out := p.l.Spec.Schemas(p.database)
	add := func(schema string) {
		if !slices.Contains(out, schema) && schema != "pg_catalog" {
			out = append(out, schema)
		}
	}
	for _, n := range append(slices.Clone(p.b.Needs), p.b.Handlers...) {
		add(n.Schema)
	}
	for _, s := range p.b.Sequences {
		schema, _ := SequenceName(p.l, s.Name.Schema, s.Name.Name)
		add(schema)
	}
	return out
}

// schemaItem makes a schema, with the grants of the source's schemas whose tables
// it holds: without USAGE nothing in it can be reached.
func (p *plan) schemaItem(schema string) item {
	name := postgres.Ident(schema)
	out := item{kind: "schema", name: name, statements: []ddl.Statement{{SQL: "CREATE SCHEMA " + name,
		Object: p.object("schema", name, "DROP SCHEMA IF EXISTS "+name)}}}
	from := map[string]bool{schema: true}
	for _, t := range p.b.Tables {
		for _, loc := range p.locations(t) {
			if loc.Schema == schema {
				from[t.Layout.Spec.Name.Schema] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, g := range p.b.Grants {
		if g.Kind != "SCHEMA" || !from[g.Object.Schema] || !p.roles.exists(g.Grantee) {
			continue
		}
		sql := fmt.Sprintf("GRANT %s ON SCHEMA %s TO %s%s", g.Privilege, name, grantee(g.Grantee), withOption(g))
		if !seen[sql] {
			seen[sql] = true
			out.statements = append(out.statements, ddl.Statement{SQL: sql})
		}
	}
	return out
}

func withOption(g blueprint.Grant) string {
	if g.Grantable {
		return " WITH GRANT OPTION"
	}
	return ""
}

// needItem makes a type, a function or a collation as it is on the source.
func (p *plan) needItem(n *blueprint.Need) item {
	keyword := map[string]string{"type": "TYPE", "function": "ROUTINE", "collation": "COLLATION"}[n.Kind]
	create := ddl.Statement{SQL: n.Create, Object: p.object(n.Kind, n.Name, "DROP "+keyword+" IF EXISTS "+n.Name)}
	out := item{kind: n.Kind, name: n.Name, need: n}
	if n.Kind == "function" {
		// A body may name tables that are made later, or found by a search_path only.
		out.statements = append(out.statements, ddl.Alter("SET LOCAL check_function_bodies = off"))
	}
	out.statements = append(append(out.statements, create), p.roles.owner(keyword, n.Name, n.Owner)...)
	for _, g := range p.b.Grants {
		if g.Kind == "FUNCTION" && g.Function == n.Name && p.roles.exists(g.Grantee) {
			out.statements = append(out.statements, ddl.Alter("GRANT %s ON ROUTINE %s TO %s%s", g.Privilege, n.Name, grantee(g.Grantee), withOption(g)))
		}
	}
	return out
}

// sequenceItem makes a sequence where all schemas of the database share it.
func (p *plan) sequenceItem(s blueprint.Sequence) item {
	name := p.sequence(s)
	cycle := ""
	if s.Cycle {
		cycle = " CYCLE"
	}
	create := ddl.Statement{
		SQL: fmt.Sprintf("CREATE SEQUENCE %s AS %s INCREMENT BY %d MINVALUE %d MAXVALUE %d START WITH %d CACHE %d%s",
			name, s.Type, s.Increment, s.Min, s.Max, s.Start, s.Cache, cycle),
		Object: p.object("sequence", name, "DROP SEQUENCE IF EXISTS "+name),
	}
	out := item{kind: "sequence", name: name, statements: append([]ddl.Statement{create}, p.roles.owner("SEQUENCE", name, s.Owner)...)}
	for _, g := range p.b.Grants {
		if g.Kind == "SEQUENCE" && g.Object == s.Name && p.roles.exists(g.Grantee) {
			out.statements = append(out.statements, ddl.Alter("GRANT %s ON SEQUENCE %s TO %s%s", g.Privilege, name, grantee(g.Grantee), withOption(g)))
		}
	}
	return out
}

func (p *plan) sequence(s blueprint.Sequence) string {
	schema, name := SequenceName(p.l, s.Name.Schema, s.Name.Name)
	return postgres.Table(schema, name)
}

// tombstones is the table of deletes that were issued for one migrated table. Keys
// are kept without modifiers and domains: it takes whatever the log takes. A chunk asks
// by key and by tick, for each place that it has rows of.
func (p *plan) tombstones(t *layout.Table) []ddl.Statement {
	name := postgres.Table(logschema.Schema, logschema.Tombstones(p.migration(), t.No))
	var columns, key []string
	for i, c := range t.PK {
		collate := ""
		if c.Collation != "" {
			collate = " COLLATE " + c.Collation
		}
		columns = append(columns, fmt.Sprintf("k%d %s%s NOT NULL", i+1, bareType(c), collate))
		key = append(key, fmt.Sprintf("k%d", i+1))
	}
	table := ddl.Statement{
		SQL: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (loc name NOT NULL, %s, tick bigint NOT NULL, PRIMARY KEY (%s, loc))",
			name, strings.Join(columns, ", "), strings.Join(key, ", ")),
		Object: p.object("table", name, "DROP TABLE IF EXISTS "+name),
	}
	index := postgres.Ident(logschema.Tombstones(p.migration(), t.No) + "_tick")
	return []ddl.Statement{table, ddl.Alter("CREATE INDEX IF NOT EXISTS %s ON %s (tick)", index, name)}
}

// bareType is a column's base type; for two of them the plain name would mean a
// length of one.
func bareType(c catalog.Column) string {
	switch c.BaseType {
	case "character":
		return "pg_catalog.bpchar"
	case "bit":
		return `pg_catalog."bit"`
	}
	return c.BaseType
}
