package target

import (
	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// plan is what one database gets. It is a pure function of the blueprint and of
// the database's roles.
type plan struct {
	*names
	b        *blueprint.Blueprint
	l        *layout.Layout
	database string
	roles    roles
	replica  bool // the applier has replica role there
}

func newPlan(b *blueprint.Blueprint, database string, r roles, replica bool) (*plan, error) {
	if err := checkNames(b); err != nil {
		return nil, err
	}
	return &plan{names: newNames(b), b: b, l: b.Layout, database: database, roles: r, replica: replica}, nil
}

func (p *plan) migration() string { return p.l.Spec.Migration }

// object is the registry's entry for an object of this database.
func (p *plan) object(kind, name, undo string) store.Object {
	return store.Object{Migration: p.migration(), Place: p.database, Kind: kind, Name: name, Undo: undo}
}

// at is the quoted name of a relation at a location.
func (p *plan) at(loc migrate.Location, r *blueprint.Relation) string {
	return postgres.Table(loc.Schema, p.relations[r])
}

// ordered are the tables with those that others refer to first: everywhere tables,
// then parents before children.
func (p *plan) ordered() []*blueprint.Table {
	var out []*blueprint.Table
	for _, spec := range p.l.Spec.DependencyOrder() {
		for _, t := range p.b.Tables {
			if t.Layout.Spec.Name == spec.Name {
				out = append(out, t)
			}
		}
	}
	return out
}

// locations are the places of a table on this database.
func (p *plan) locations(t *blueprint.Table) []migrate.Location {
	return p.l.Locations(t.Layout, p.database)
}

// Statements are all that Prepare runs on a database whose roles are the source's,
// for plan to print.
func Statements(b *blueprint.Blueprint, database string) ([]ddl.Statement, error) {
	p, err := newPlan(b, database, roles{all: true}, true)
	if err != nil {
		return nil, err
	}
	var out []ddl.Statement
	for _, i := range p.prepareItems() {
		out = append(out, i.statements...)
	}
	return out, nil
}

// FinishStatements are all that Finish runs, for plan to print.
func FinishStatements(b *blueprint.Blueprint, database string) ([]ddl.Statement, error) {
	p, err := newPlan(b, database, roles{all: true}, true)
	if err != nil {
		return nil, err
	}
	var out []ddl.Statement
	for i := range b.Handlers {
		out = append(out, p.needItem(&b.Handlers[i]).statements...)
	}
	for _, phase := range p.finishPhases() {
		for _, u := range phase.units {
			for _, i := range u.items {
				out = append(out, i.statements...)
			}
		}
	}
	return out, nil
}
