package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// definitions: what belongs to the tables can be made on every database, by our role
// and for the roles that have it on the source.
func definitions(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	b, err := blueprint.Read(ctx, s.Source, s.Layout)
	if err != nil {
		if failures := refusals(err); failures != nil {
			return failures, nil
		}
		return nil, err
	}
	names, conns := s.sides()
	for i, conn := range conns {
		if i == 0 {
			continue
		}
		for _, look := range []func(context.Context, *pgx.Conn, *blueprint.Blueprint, string) ([]migrate.Finding, error){schemaPrivileges, missingExtensions, missingRoles, schemaUsage} {
			more, err := look(ctx, conn, b, names[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", names[i], err)
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// schemaPrivileges: our role may create in the schemas that are there already.
func schemaPrivileges(ctx context.Context, conn *pgx.Conn, b *blueprint.Blueprint, database string) (found []migrate.Finding, err error) {
	const sql = `SELECT n.nspname, current_user::text FROM pg_namespace n
	WHERE n.nspname = ANY($1) AND NOT (has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE')) ORDER BY 1`
	rows, err := conn.Query(ctx, sql, target.Schemas(b, database))
	if err != nil {
		return nil, err
	}
	var schema, user string
	_, err = pgx.ForEachRow(rows, []any{&schema, &user}, func() error {
		found = append(found, blocking("privilege.create", database+"."+postgres.Ident(schema), fmt.Sprintf("role %s may not create in this schema", user),
			fmt.Sprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %s;", postgres.Ident(schema), postgres.Ident(user))))
		return nil
	})
	return found, err
}

// missingRoles: roles are never made. What an absent one owns or may do is left out on
// the database, but for a policy.
func missingRoles(ctx context.Context, conn *pgx.Conn, b *blueprint.Blueprint, database string) ([]migrate.Finding, error) {
	there, err := texts(ctx, conn, "SELECT rolname FROM pg_roles")
	if err != nil {
		return nil, err
	}
	missing := func(roles []string) (out []string) {
		slices.Sort(roles)
		return slices.DeleteFunc(slices.Compact(roles), func(r string) bool { return r == "" || slices.Contains(there, r) })
	}
	var found []migrate.Finding
	restricted := missing(b.PolicyRoles())
	if len(restricted) > 0 {
		found = append(found, blocking("role.missing", database, "row security is for "+strings.Join(restricted, ", ")+", not there: without the policy the rows would be open or shut to somebody else", createRoles(restricted)))
	}
	others := slices.DeleteFunc(missing(b.Roles()), func(r string) bool { return slices.Contains(restricted, r) })
	if len(others) > 0 {
		found = append(found, warning("role.missing", database, "roles are not copied, and "+strings.Join(others, ", ")+" are not there: what they own or may do on the source is left out", createRoles(others)))
	}
	return found, nil
}

func createRoles(names []string) string {
	return "CREATE ROLE " + strings.Join(quoted(names), "; CREATE ROLE ") + ";"
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = postgres.Ident(n)
	}
	return out
}

// schemaUsage: who may use the source's schema may use that of the tables on the
// database too, where it is there already and prepare will not grant it.
func schemaUsage(ctx context.Context, conn *pgx.Conn, b *blueprint.Blueprint, database string) (found []migrate.Finding, err error) {
	const sql = `SELECT u.schema, u.role FROM unnest($1::text[], $2::text[]) u(schema, role) JOIN pg_namespace n ON n.nspname = u.schema
	WHERE NOT CASE WHEN u.role = '' THEN has_schema_privilege('public', n.oid, 'USAGE')
	  ELSE coalesce((SELECT has_schema_privilege(r.oid, n.oid, 'USAGE') FROM pg_roles r WHERE r.rolname = u.role), true) END ORDER BY 1, 2`
	var schemas, roles []string
	for _, t := range b.Tables {
		for _, loc := range b.Layout.Locations(t.Layout, database) {
			for _, g := range b.Grants {
				if g.Kind == "SCHEMA" && g.Privilege == "USAGE" && g.Object.Schema == t.Layout.Spec.Name.Schema {
					schemas, roles = append(schemas, loc.Schema), append(roles, g.Grantee)
				}
			}
		}
	}
	rows, err := conn.Query(ctx, "SELECT DISTINCT * FROM ("+sql+") x ORDER BY 1, 2", schemas, roles)
	if err != nil {
		return nil, err
	}
	var schema, role string
	_, err = pgx.ForEachRow(rows, []any{&schema, &role}, func() error {
		who := "PUBLIC"
		if role != "" {
			who = postgres.Ident(role)
		}
		found = append(found, warning("schema.usage", database+"."+postgres.Ident(schema), who+" may use the source's schema, but not this one, which is there already: its tables could not be reached",
			fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", postgres.Ident(schema), who)))
		return nil
	})
	return found, err
}
