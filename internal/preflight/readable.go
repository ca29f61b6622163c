package preflight

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// readable: the role may read every table. Where it is no member of an owner that is
// a finding already, and what mends it gives the right to read too.
func readable(ctx context.Context, s *Survey) (found []migrate.Finding, all bool, err error) {
	const sql = `SELECT format('%I.%I', n.nspname, c.relname), n.nspname, current_user::text, has_schema_privilege(n.oid, 'USAGE'), pg_has_role(current_user, c.relowner, 'USAGE')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.oid = ANY($1) AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')) ORDER BY 1`
	rows, err := s.Source.Query(ctx, sql, s.oids())
	if err != nil {
		return nil, false, err
	}
	all = true
	var table, schema, user string
	var usage, owns bool
	_, err = pgx.ForEachRow(rows, []any{&table, &schema, &user, &usage, &owns}, func() error {
		all = false
		switch {
		case !usage:
			found = append(found, blocking("privilege.read", table, fmt.Sprintf("role %s may not use schema %s", user, schema),
				fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", postgres.Ident(schema), postgres.Ident(user))))
		case owns:
			found = append(found, blocking("privilege.read", table, fmt.Sprintf("role %s may not read the table", user),
				fmt.Sprintf("GRANT SELECT ON %s TO %s;", table, postgres.Ident(user))))
		}
		return nil
	})
	return found, all, err
}
