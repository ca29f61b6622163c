package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// poolers: sessions are direct. A pooler invents the process id that it tells its
// client, so it differs from the server's own word; through one, advisory locks and
// SET would leak to other clients.
func poolers(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	names, conns := s.sides()
	for i, conn := range conns {
		var pid uint32
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		if pid != conn.PgConn().PID() {
			found = append(found, blocking("connect.pooler", names[i], "the DSN leads through a pooler; give the server's own address"))
		}
	}
	return found, nil
}
