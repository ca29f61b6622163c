package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// The versions that are tested.
const oldest, newest = 13, 18

// versions: every server is PostgreSQL 13 to 18, and no standby.
func versions(_ context.Context, s *Survey) (found []migrate.Finding, err error) {
	names, _ := s.sides()
	for _, name := range names {
		id := s.Identities[name]
		if major := id.VersionNum / 10000; major < oldest || major > newest {
			found = append(found, blocking("server.version", name, fmt.Sprintf("PostgreSQL %d is not supported, %d to %d are", major, oldest, newest)))
		}
		if id.Standby {
			found = append(found, blocking("server.standby", name, "the server is a standby and cannot be written; give the primary's DSN"))
		}
	}
	return found, nil
}
