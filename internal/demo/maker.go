package demo

import (
	"context"
	"errors"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/migrate"
)

// DefaultImage is what servers in containers are made of.
const DefaultImage = "postgres:17-alpine"

// server is one of the demo's servers, or its pooler.
type server interface {
	Keep(ctx context.Context) error
	StopCommand() string
	Close() error
}

// database is a PostgreSQL server, from programs of this machine or in a container.
type database interface {
	server
	DSN(database string) string
	Port() int
}

// maker starts the demo's PostgreSQL servers.
type maker struct {
	make     func(ctx context.Context, settings []string) (database, error)
	password string // of the superuser, if there is one
}

// findMaker looks for what the demo needs before anything is started: server programs,
// else a container engine; with an image, the engine alone.
func findMaker(ctx context.Context, image string) (maker, error) {
	_, programs := localpg.FindPostgres()
	_, pooler := localpg.FindPgBouncer()
	return chooseMaker(ctx, image, programs, pooler, localpg.FindEngine)
}

// chooseMaker decides by what looking for server programs and for the pooler gave.
func chooseMaker(ctx context.Context, image string, programs, pooler error, findEngine func(context.Context) (*localpg.Engine, error)) (maker, error) {
	if pooler != nil {
		return maker{}, lacking("PgBouncer", pooler)
	}
	if programs == nil && image == "" {
		return maker{make: func(ctx context.Context, settings []string) (database, error) {
			return orNone(localpg.NewCluster(ctx, localpg.Options{Fsync: true, Settings: settings}))
		}}, nil
	}
	engine, err := findEngine(ctx)
	switch {
	case err != nil && image != "":
		return maker{}, lacking("a container engine for --image", err)
	case err != nil:
		return maker{}, lacking("PostgreSQL server programs, or a container engine in their place", err)
	case image == "":
		image = DefaultImage
	}
	m := maker{password: localpg.NewPassword()}
	m.make = func(ctx context.Context, settings []string) (database, error) {
		return orNone(engine.NewContainer(ctx, localpg.ContainerOptions{Image: image, Password: m.password, Settings: settings}))
	}
	return m, nil
}

// orNone makes a missing server a nil database.
func orNone[D database](d D, err error) (database, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// lacking is the one line for a machine on which the demo cannot run.
func lacking(what string, err error) error {
	f := migrate.Broken("demo.lacking", "demo", "needs "+what,
		"on Debian `make deps`, or apt-get install postgresql pgbouncer; docker or podman can run the servers, not PgBouncer", err)
	if errors.Is(err, localpg.ErrNotFound) {
		f.Err = nil // the hint says it better
	}
	return f
}
