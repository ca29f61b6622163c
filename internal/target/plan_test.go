package target

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// small is a blueprint of one table that absent and a present role may use.
func small() *blueprint.Blueprint {
	name := migrate.TableName{Schema: "s", Name: "t"}
	spec := &migrate.Spec{Migration: "m", Databases: []migrate.Database{{Name: "db0"}},
		Shards: migrate.Shards{Count: 1, Schema: "s", Placement: []string{"db0"}}, Tables: []migrate.Table{{Name: name}}}
	lt := &layout.Table{No: 1, Spec: spec.Tables[0], Source: &catalog.Table{Name: name, Kind: 'r'}}
	l := &layout.Layout{Spec: spec, Tables: []*layout.Table{lt}}
	grant := func(role string) blueprint.Grant {
		return blueprint.Grant{Kind: "TABLE", Object: name, Grantee: role, Privilege: "SELECT"}
	}
	return &blueprint.Blueprint{Layout: l, Grants: []blueprint.Grant{grant("absent"), grant("present")}, Tables: []*blueprint.Table{{
		Layout:    lt,
		Relations: []*blueprint.Relation{{Name: name, Owner: "absent", Identity: 'd', Keys: []blueprint.Constraint{{Name: "t_pkey", Kind: 'p', Def: "PRIMARY KEY (id)"}}}},
		Columns:   []blueprint.Column{{Name: "id", Type: "integer", NotNull: true}},
		Policies:  []blueprint.Policy{{Name: "p", Command: "ALL", Roles: []string{"absent"}}},
	}}}
}

func TestRolesThatAreAbsent(t *testing.T) {
	t.Parallel()
	r := roles{there: map[string]bool{"present": true}, own: map[string]bool{"present": true}, version: 150000}
	p, err := newPlan(small(), "db0", r, true)
	if err != nil {
		t.Fatal(err)
	}
	var all []ddl.Statement
	for _, i := range p.prepareItems() {
		all = append(all, i.statements...)
	}
	for _, ph := range p.finishPhases() {
		for _, u := range ph.units {
			for _, i := range u.items {
				if i.kind != "policy" {
					all = append(all, i.statements...)
				}
			}
		}
	}
	text := ddl.Script(all)
	if strings.Contains(text, "absent") || !strings.Contains(text, `GRANT SELECT ON TABLE "s"."t" TO "present"`) {
		t.Errorf("grants and owners:\n%s", text)
	}
	if err := p.checkPolicies(); err == nil {
		t.Error("a policy for an absent role was let through")
	}
}

func TestPlanPrintsAllWithItsUndo(t *testing.T) {
	t.Parallel()
	before, err := Statements(small(), "db0")
	if err != nil {
		t.Fatal(err)
	}
	after, err := FinishStatements(small(), "db0")
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		`CREATE TABLE "s"."t" (`:                     ddl.Script(before),
		`DROP TABLE IF EXISTS "s"."t"`:               ddl.Undo(before),
		`CREATE POLICY "p" ON "s"."t"`:               ddl.Script(after),
		`DROP TABLE IF EXISTS "shardctl"."m_switch"`: ddl.Undo(after),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in:\n%s", want, text)
		}
	}
}

func TestNamesAreFreeAndFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 31) + "x" // 63 bytes
	taken := map[string]bool{}
	for i, want := range []string{long, strings.Repeat("é", 30) + "_7", strings.Repeat("é", 29) + "_7_1"} {
		if got := free(taken, "h ", long, 7); got != want || len(got) > migrate.MaxIdentifier {
			t.Errorf("name %d: %s (%d bytes), want %s", i, got, len(got), want)
		}
	}
	if got := free(taken, "other ", long, 7); got != long {
		t.Errorf("in another schema: %s", got)
	}
}
