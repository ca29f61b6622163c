package target

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
)

// roles are those of a database: which exist, and as whom objects can be owned.
type roles struct {
	all     bool // assume every role is there, to print a plan
	there   map[string]bool
	own     map[string]bool
	version int
}

func loadRoles(ctx context.Context, q postgres.Querier) (roles, error) {
	r := roles{there: map[string]bool{}, own: map[string]bool{}}
	if err := q.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&r.version); err != nil {
		return r, fmt.Errorf("read server version: %w", err)
	}
	become := "MEMBER"
	if r.version >= 160000 {
		become = "SET"
	}
	rows, err := q.Query(ctx, "SELECT rolname::text, pg_has_role(current_user, oid, $1) FROM pg_roles", become)
	if err != nil {
		return r, fmt.Errorf("read roles: %w", err)
	}
	var name string
	var own bool
	_, err = pgx.ForEachRow(rows, []any{&name, &own}, func() error {
		r.there[name], r.own[name] = true, own
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("read roles: %w", err)
	}
	return r, nil
}

func (r roles) exists(role string) bool { return r.all || role == "" || r.there[role] }

// owner gives an object to its owner on the source, where that role is there and
// can be given to.
func (r roles) owner(kind, name, role string) []ddl.Statement {
	if !r.all && !r.own[role] {
		return nil
	}
	return []ddl.Statement{ddl.Alter("ALTER %s %s OWNER TO %s", kind, name, postgres.Ident(role))}
}

// grantee is a role in GRANT; "" is PUBLIC.
func grantee(role string) string {
	if role == "" {
		return "PUBLIC"
	}
	return postgres.Ident(role)
}
