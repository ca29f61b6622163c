package target

import (
	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// userTriggerItems make the user's triggers of a table at a location, dormant. The
// server gives a partition copies of its parent's.
func (p *plan) userTriggerItems(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	for _, r := range t.Relations {
		relation := p.at(loc, r)
		for _, g := range r.Triggers {
			quoted := postgres.Ident(g.Name)
			sleep := ddl.Alter("ALTER TABLE ONLY %s DISABLE TRIGGER %s", relation, quoted)
			if g.Inherited {
				// May be said again: its parent's item may have been made before it was attached.
				out = append(out, item{statements: []ddl.Statement{sleep}})
				continue
			}
			out = append(out, item{kind: "trigger", name: belonging(relation, g.Name),
				statements: []ddl.Statement{{SQL: g.Before + " ON " + relation + " " + g.After}, sleep}})
		}
	}
	return out
}

// state is the SQL that gives a trigger the state that it has on the source.
func state(code byte, trigger string) string {
	switch code {
	case 'A':
		return "ENABLE ALWAYS TRIGGER " + trigger
	case 'R':
		return "ENABLE REPLICA TRIGGER " + trigger
	case 'D':
		return "DISABLE TRIGGER " + trigger
	}
	return "ENABLE TRIGGER " + trigger
}
