package drivers

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/migrate"
)

// New makes the routers of a spec, in its order. It connects to nothing: Open does.
func New(spec *migrate.Spec) ([]topology.Router, error) {
	routers := make([]topology.Router, 0, len(spec.Topology))
	for _, item := range spec.Topology {
		switch item.Driver {
		case "pgbouncer":
			r, err := pgbouncer.New(spec, item)
			if err != nil {
				return nil, err
			}
			routers = append(routers, r)
		case "file":
			routers = append(routers, file.New(spec, item))
		default:
			return nil, fmt.Errorf("topology: no driver %q", item.Driver)
		}
	}
	return routers, nil
}
