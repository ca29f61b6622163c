package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// entries: an entry of a pooler that stands for several shards cannot say which
// schema its statements mean.
func entries(_ context.Context, s *Survey) (found []migrate.Finding, err error) {
	if !s.Spec.Shards.SchemaPerShard() || s.Spec.Shards.Count == 1 {
		return nil, nil
	}
	for _, r := range s.Spec.Topology {
		for _, e := range r.Entries {
			if !migrate.Numbered(e.Database) {
				found = append(found, warning("router.no_schema", e.Database, fmt.Sprintf(
					"the entry leads to %d shards, each with a schema of its own: after the cutover unqualified names mean nothing there; give the entry the shard's number (%s_%%03d), or let the application set search_path",
					s.Spec.Shards.Count, e.Database)))
			}
		}
	}
	return found, nil
}
