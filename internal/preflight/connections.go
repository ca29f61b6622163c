package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// What all commands together hold open at most, a backfill's workers aside: those wait
// for a free connection. On the source some stand for each database.
const (
	sourceSessions      = 16
	sourceSessionsEach  = 2
	databaseSessionsMax = 12
)

// connections: a switch that is refused a session in its window would be given up, so
// there have to be enough for the role, the database and the server.
func connections(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT r.rolconnlimit, d.datconnlimit, current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
	  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name NOT LIKE 'shardctl %')::int, r.rolsuper, current_user::text, d.datname::text
	FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`
	names, conns := s.sides()
	for i, conn := range conns {
		need := databaseSessionsMax
		if i == 0 {
			need = sourceSessions + sourceSessionsEach*len(s.Spec.Databases)
		}
		var role, database, server, used int
		var super bool
		var user, dbname string
		if err := conn.QueryRow(ctx, sql).Scan(&role, &database, &server, &used, &super, &user, &dbname); err != nil {
			return nil, fmt.Errorf("%s: read the limits of connections: %w", names[i], err)
		}
		about := func(what string, limit int) string {
			return fmt.Sprintf("%s allows %d connections, shardctl needs up to %d and one for each worker of a backfill", what, limit, need)
		}
		switch {
		case role >= 0 && role < need && !super:
			found = append(found, blocking("connections.role", names[i], about("role "+user, role), fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d;", postgres.Ident(user), need+8)))
		case database >= 0 && database < need && !super:
			found = append(found, blocking("connections.database", names[i], about("database "+dbname, database), fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d;", postgres.Ident(dbname), need+8)))
		case server < need:
			found = append(found, blocking("connections.server", names[i], about("the server", server), fmt.Sprintf("ALTER SYSTEM SET max_connections = %d; -- and restart", server+need)))
		case server-used < need:
			found = append(found, warning("connections.used", names[i], fmt.Sprintf("of %d connections %d are in use now; shardctl needs up to %d and one for each worker of a backfill", server, used, need)))
		}
	}
	return found, nil
}
