package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// EvictSharers ends every session of this server, but the caller's, that holds the
// control row's lock or the ownership row's of one of the databases. A process that
// was stopped in the middle of a tick holds them for as long as the server lets it,
// and nobody can raise the term meanwhile. What those sessions had begun is rolled back.
func EvictSharers(ctx context.Context, q postgres.Querier, migration string, databases []string) error {
	names := []string{lockName("control", migration, "")}
	for _, d := range databases {
		names = append(names, lockName("ownership", migration, d))
	}
	const sql = `SELECT DISTINCT a.pid, a.backend_start FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
	  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	  AND (l.classid::bigint << 32) | l.objid::bigint IN (SELECT hashtextextended(n, 0) FROM unnest($1::text[]) n)`
	rows, err := q.Query(ctx, sql, names)
	if err != nil {
		return fmt.Errorf("look for who holds the locks of %s: %w", migration, err)
	}
	held, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (b postgres.Backend, err error) {
		err = r.Scan(&b.PID, &b.Start)
		return b, err
	})
	if err != nil {
		return fmt.Errorf("look for who holds the locks of %s: %w", migration, err)
	}
	for _, b := range held {
		if err := postgres.TerminateBackend(ctx, q, b); err != nil {
			return err
		}
	}
	return nil
}
