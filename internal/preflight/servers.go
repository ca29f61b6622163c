package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// servers: source and databases are different databases; the same server is only
// warned of, since it takes no load off the source.
func servers(_ context.Context, s *Survey) (found []migrate.Finding, err error) {
	type place struct{ system, database string }
	seen := map[place]string{}
	names, _ := s.sides()
	for _, name := range names {
		id := s.Identities[name]
		p := place{id.SystemIdentifier, id.Database}
		if other, twice := seen[p]; twice {
			found = append(found, blocking("target.same_database", name, fmt.Sprintf("this is the same database as %s; give each its own", other)))
			continue
		}
		seen[p] = name
		if name != "source" && id.SystemIdentifier == s.Identities["source"].SystemIdentifier {
			found = append(found, warning("target.same_server", name, "the database is on the source's own server: moving rows there takes no load off it"))
		}
	}
	return found, nil
}
