package target

import (
	"slices"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/migrate"
)

// unit is what is made in one transaction, with the ticks of its tables held off.
type unit struct {
	what  string
	locks []int // table numbers, ascending
	items []item
}

// phase is a step of Finish: all of its units, then the next.
type phase struct {
	what  string
	units []unit
}

// finishPhases are all that follows the copy, but statistics.
func (p *plan) finishPhases() []phase {
	functions := append([]ddl.Statement{p.scriptStatement()}, fence.GuardFunctions(p.l, p.database)...)
	return []phase{
		{"functions", []unit{{what: "functions", items: []item{{statements: functions}}}}},
		{"indexes", p.each(func(t *blueprint.Table, loc migrate.Location) unit {
			return unit{locks: []int{t.Layout.No}, items: p.indexItems(t, loc)}
		})},
		{"foreign keys", p.foreignKeyUnits()},
		{"checks of foreign keys", p.validationUnits()},
		{"triggers", p.triggerUnits()},
	}
}

// each makes a unit for each table at each location, leaving out empty ones.
func (p *plan) each(make func(*blueprint.Table, migrate.Location) unit) []unit {
	var out []unit
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			u := make(t, loc)
			u.what = p.at(loc, t.Root())
			if len(u.items) > 0 {
				out = append(out, u)
			}
		}
	}
	return out
}

// foreignKeyUnits add the foreign keys, without a look at the rows.
func (p *plan) foreignKeyUnits() []unit {
	return p.eachForeignKey(func(k foreignKey) unit {
		return unit{what: k.relation, locks: k.numbers(), items: []item{p.addItem(k)}}
	})
}

// validationUnits look at the rows, where the source has done so. Ticks go on.
func (p *plan) validationUnits() []unit {
	return p.eachForeignKey(func(k foreignKey) unit {
		u := unit{what: k.relation}
		if k.Validated && !k.partitioned {
			u.items = []item{{statements: []ddl.Statement{ddl.Alter("%s", k.validate())}}}
		}
		return u
	})
}

func (p *plan) eachForeignKey(make func(foreignKey) unit) []unit {
	var out []unit
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			for _, k := range p.foreignKeys(t, loc) {
				if u := make(k); len(u.items) > 0 {
					out = append(out, u)
				}
			}
		}
	}
	return out
}

// triggerUnits are one a schema, since triggers lock briefly and a schema's tables
// are ticked together.
func (p *plan) triggerUnits() []unit {
	bySchema := map[string]*unit{}
	var order []string
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			u := bySchema[loc.Schema]
			if u == nil {
				u = &unit{what: loc.Schema}
				bySchema[loc.Schema] = u
				order = append(order, loc.Schema)
			}
			u.locks = append(u.locks, t.Layout.No)
			u.items = append(u.items, p.dormant(t, loc)...)
		}
	}
	var out []unit
	for _, schema := range order {
		u := bySchema[schema]
		slices.Sort(u.locks)
		u.locks = slices.Compact(u.locks)
		out = append(out, *u)
	}
	return out
}

// dormant are a table's triggers and who may use it.
func (p *plan) dormant(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	if fence.Guarded(p.l, t.Layout) {
		out = append(out, item{kind: "trigger", name: belonging(p.at(loc, t.Root()), logschema.GuardTrigger(p.migration())),
			statements: []ddl.Statement{fence.Guard(p.l, t.Layout, loc)}})
	}
	out = append(out, p.storedKeyItems(t, loc)...)
	out = append(out, p.userTriggerItems(t, loc)...)
	out = append(out, p.grantItem(t, loc))
	return append(out, p.securityItems(t, loc)...)
}
