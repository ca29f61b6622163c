package pgtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgcontainer"
)

// dsnVariable names a server to use instead of a throw-away one; its role must
// be a superuser.
const dsnVariable = "SHARDCTL_TEST_DSN"

// server is where databases of tests live.
type server interface {
	DSN(database string) string
}

// shared is the one server of this test process, started by the first test
// that asks for a database.
var shared struct {
	once   sync.Once
	server server
	err    error
	close  func() error
}

func sharedServer(t testing.TB) server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.close, shared.err = openShared() })
	if shared.err != nil {
		t.Fatalf("pgtest: no PostgreSQL to test on: %v", shared.err)
	}
	return shared.server
}

func openShared() (server, func() error, error) {
	if dsn := os.Getenv(dsnVariable); dsn != "" {
		return external(dsn), func() error { return nil }, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := localpg.NewCluster(ctx, localpg.Options{Settings: sharedSettings})
	if err == nil {
		return cluster, cluster.Close, nil
	}
	if !errors.Is(err, localpg.ErrNotFound) {
		return nil, nil, err // there is one, and it is out of order
	}
	container, containerErr := pgcontainer.Start(ctx, sharedSettings)
	if containerErr != nil {
		return nil, nil, errors.Join(err, containerErr)
	}
	return container, container.Close, nil
}

// sharedSettings leave room for parallel tests that each hold many connections.
var sharedSettings = []string{
	"max_connections=300",
	"wal_level=logical",
	"max_prepared_transactions=20",
	"max_replication_slots=40",
	"max_wal_senders=40",
	"shared_buffers=128MB",
}

func stopShared() error {
	if shared.close == nil {
		return nil
	}
	return shared.close()
}

// external is a server that somebody else keeps.
type external string

// DSN names another database of it, whether the variable holds a URL or
// keywords, of which the last one wins.
func (e external) DSN(database string) string {
	if u, err := url.Parse(string(e)); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + database
		return u.String()
	}
	return string(e) + " dbname='" + database + "'"
}
