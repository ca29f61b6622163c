package target

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// belonging is the name by which what belongs to a table is found on a database.
func belonging(relation, name string) string { return relation + " " + postgres.Ident(name) }

// indexItems are the keys and indexes of a table at a location but the primary
// key, and the checks that the source has not validated.
func (p *plan) indexItems(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	for _, r := range t.Relations {
		relation := p.at(loc, r)
		for _, k := range r.Keys {
			if k.Kind == 'p' && r.Parent == nil {
				continue
			}
			name := p.indexes[indexRef{r, k.Name}]
			out = append(out, item{kind: "constraint", name: belonging(relation, name),
				statements: []ddl.Statement{ddl.Alter("ALTER TABLE %s ADD %s", relation, constraint(name, k))}})
		}
		for _, x := range r.Indexes {
			out = append(out, p.indexItem(r, x, loc))
		}
		for _, c := range r.Checks {
			if !c.Validated {
				out = append(out, item{kind: "constraint", name: belonging(relation, c.Name),
					statements: []ddl.Statement{ddl.Alter("ALTER TABLE %s ADD %s", relation, constraint(c.Name, c))}})
			}
		}
	}
	return append(out, p.replicaIdentity(t, loc)...)
}

func (p *plan) indexItem(r *blueprint.Relation, x blueprint.Index, loc migrate.Location) item {
	name, unique := p.indexes[indexRef{r, x.Name}], ""
	if x.Unique {
		unique = "UNIQUE "
	}
	return item{kind: "index", name: postgres.Table(loc.Schema, name), statements: []ddl.Statement{{
		SQL: fmt.Sprintf("CREATE %sINDEX %s ON %s USING ", unique, postgres.Ident(name), p.at(loc, r)) + x.Rest}}}
}

// replicaIdentity carries over what is not the default; it may be set again.
func (p *plan) replicaIdentity(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	for _, r := range t.Relations {
		set := ""
		switch r.Identity {
		case 'f':
			set = "FULL"
		case 'n':
			set = "NOTHING"
		case 'i':
			set = p.identityIndex(r)
		}
		if set != "" {
			out = append(out, item{statements: []ddl.Statement{ddl.Alter("ALTER TABLE ONLY %s REPLICA IDENTITY %s", p.at(loc, r), set)}})
		}
	}
	return out
}

// identityIndex names the index that is the replica identity.
func (p *plan) identityIndex(r *blueprint.Relation) string {
	using := func(name string) string { return "USING INDEX " + postgres.Ident(p.indexes[indexRef{r, name}]) }
	for _, k := range r.Keys {
		if k.Replica {
			return using(k.Name)
		}
	}
	for _, x := range r.Indexes {
		if x.Replica {
			return using(x.Name)
		}
	}
	return ""
}
