package preflight

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// sourcePrivileges: the role may create a schema, and owns every table and partition:
// only an owner may alter triggers.
func sourcePrivileges(ctx context.Context, s *Survey) ([]migrate.Finding, error) {
	found, err := createPrivilege(ctx, "source", s.Source)
	if err != nil {
		return nil, err
	}
	const sql = `SELECT format('%I.%I', n.nspname, c.relname), pg_get_userbyid(c.relowner), current_user::text
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS t(s, r, o) JOIN pg_namespace rn ON rn.nspname = t.s JOIN pg_class rc ON rc.relnamespace = rn.oid AND rc.relname = t.r
	CROSS JOIN LATERAL (SELECT rc.oid UNION SELECT relid::oid FROM pg_partition_tree(rc.oid::regclass)) p JOIN pg_class c ON c.oid = p.oid JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE NOT pg_has_role(current_user, c.relowner, 'USAGE') ORDER BY t.o, n.nspname, c.relname`
	var schemas, names []string
	for _, t := range s.Spec.Tables {
		schemas, names = append(schemas, t.Name.Schema), append(names, t.Name.Name)
	}
	rows, err := s.Source.Query(ctx, sql, schemas, names)
	if err != nil {
		return nil, err
	}
	var table, owner, user string
	_, err = pgx.ForEachRow(rows, []any{&table, &owner, &user}, func() error {
		found = append(found, blocking("privilege.owner", table, fmt.Sprintf("role %s is not a member of the owner %s, so it cannot create triggers that it may also disable", user, owner),
			fmt.Sprintf("GRANT %s TO %s;", postgres.Ident(owner), postgres.Ident(user))))
		return nil
	})
	return found, err
}

// databasePrivileges: the role may create schemas on every database.
func databasePrivileges(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	names, conns := s.sides()
	for i := 1; i < len(conns); i++ {
		more, err := createPrivilege(ctx, names[i], conns[i])
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func createPrivilege(ctx context.Context, name string, conn *pgx.Conn) ([]migrate.Finding, error) {
	var may bool
	var database, user string
	const sql = `SELECT has_database_privilege(current_database(), 'CREATE'), current_database(), current_user`
	if err := conn.QueryRow(ctx, sql).Scan(&may, &database, &user); err != nil || may {
		return nil, err
	}
	return []migrate.Finding{blocking("privilege.create", name, fmt.Sprintf("role %s may not create a schema", user),
		fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s;", postgres.Ident(database), postgres.Ident(user)))}, nil
}
