package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/exec"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/internal/topology/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// routers makes and opens every router of the spec.
func (s *session) routers(ctx context.Context) ([]topology.Router, func(), error) {
	var out []topology.Router
	closeAll := func() {
		for _, r := range out {
			r.Close()
		}
	}
	for _, item := range s.spec.Topology {
		r, err := newRouter(s.spec, item)
		if err != nil {
			return nil, closeAll, err
		}
		if err := r.Open(ctx); err != nil {
			return nil, closeAll, err
		}
		out = append(out, r)
	}
	return out, closeAll, nil
}

func newRouter(spec *migrate.Spec, item migrate.Router) (topology.Router, error) {
	switch item.Driver {
	case "pgbouncer":
		return pgbouncer.New(spec, item)
	case "file":
		return file.New(spec, item), nil
	case "postgres":
		return postgres.New(spec, item)
	case "exec":
		return exec.New(spec, item), nil
	}
	return nil, migrate.Usage("spec.driver", item.Driver, "no such router driver", "pgbouncer, file, postgres or exec")
}

// describeTimeout bounds what plan waits for one router, hooks with a long timeout
// included.
const describeTimeout = 10 * time.Second

// routerFindings asks every router what makes it unfit. One that does not answer is a
// finding.
func routerFindings(ctx context.Context, spec *migrate.Spec) (found []migrate.Finding, err error) {
	for _, item := range spec.Topology {
		r, err := newRouter(spec, item)
		if err != nil {
			return found, err
		}
		more, err := describeRouter(ctx, r)
		r.Close()
		if err != nil {
			return found, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func describeRouter(ctx context.Context, r topology.Router) ([]migrate.Finding, error) {
	bounded, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	d, err := r.Describe(bounded)
	if err == nil || ctx.Err() != nil {
		return d.Findings, ctx.Err()
	}
	fix := "bring it up, then run shardctl plan again"
	return []migrate.Finding{{ID: "router.unreachable", Severity: migrate.SeverityError, Object: r.Name(),
		Message: fmt.Sprintf("no answer within %s: %v", describeTimeout, err), Fix: &fix}}, nil
}
