package target

import (
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// maintain is a privilege that servers before 17 do not know.
const maintain = "MAINTAIN"

// grantItem grants what is granted on the source's table; it may be said again.
func (p *plan) grantItem(t *blueprint.Table, loc migrate.Location) item {
	var out []ddl.Statement
	relation := p.at(loc, t.Root())
	for _, g := range p.b.Grants {
		if g.Object != t.Layout.Spec.Name || !p.roles.exists(g.Grantee) || g.Privilege == maintain && !p.roles.all && p.roles.version < 170000 {
			continue
		}
		switch g.Kind {
		case "TABLE":
			out = append(out, ddl.Alter("GRANT %s ON TABLE %s TO %s%s", g.Privilege, relation, grantee(g.Grantee), withOption(g)))
		case "COLUMN":
			out = append(out, ddl.Alter("GRANT %s (%s) ON TABLE %s TO %s%s", g.Privilege, postgres.Ident(g.Column), relation, grantee(g.Grantee), withOption(g)))
		}
	}
	return item{statements: out}
}

// securityItems carry row security over. Policies are made under a search_path in
// which the tables that they read are the location's own.
func (p *plan) securityItems(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	relation := p.at(loc, t.Root())
	if t.Layout.Source.RLS {
		out = append(out, item{statements: []ddl.Statement{ddl.Alter("ALTER TABLE %s ENABLE ROW LEVEL SECURITY", relation)}})
	}
	if t.Layout.Source.ForceRLS {
		out = append(out, item{statements: []ddl.Statement{ddl.Alter("ALTER TABLE %s FORCE ROW LEVEL SECURITY", relation)}})
	}
	for _, y := range t.Policies {
		path := append([]string{"pg_catalog", loc.Schema}, p.l.Spec.SourceSchemas()...)
		out = append(out, item{kind: "policy", name: belonging(relation, y.Name), statements: []ddl.Statement{
			ddl.Alter("SET LOCAL search_path = %s", postgres.Idents("", path)), {SQL: policy(y, relation)}, ddl.Alter("SET LOCAL search_path = pg_catalog")}})
	}
	return out
}

func policy(y blueprint.Policy, relation string) string {
	kind, roles := "RESTRICTIVE", []string{"PUBLIC"}
	if y.Permissive {
		kind = "PERMISSIVE"
	}
	if len(y.Roles) > 0 {
		roles = nil
		for _, role := range y.Roles {
			roles = append(roles, postgres.Ident(role))
		}
	}
	sql := "CREATE POLICY " + postgres.Ident(y.Name) + " ON " + relation + " AS " + kind + " FOR " + y.Command + " TO " + strings.Join(roles, ", ")
	if y.Using != "" {
		sql += " USING (" + y.Using + ")"
	}
	if y.Check != "" {
		sql += " WITH CHECK (" + y.Check + ")"
	}
	return sql
}

// checkPolicies refuses a policy for a role that is absent: left out it would open
// or shut the table for somebody else.
func (p *plan) checkPolicies() error {
	var failures migrate.Failures
	for _, t := range p.b.Tables {
		for _, y := range t.Policies {
			for _, role := range y.Roles {
				if !p.roles.exists(role) {
					failures = append(failures, migrate.Refuse("role.missing", p.database, "policy "+y.Name+" of "+t.Layout.Name()+" is for role "+role+", which is not there",
						"CREATE ROLE "+postgres.Ident(role)))
				}
			}
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}
