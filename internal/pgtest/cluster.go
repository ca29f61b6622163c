package pgtest

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/internal/localpg"
)

// ClusterOptions says what a test's own server is like.
type ClusterOptions struct {
	Settings []string // "name=value", as in postgresql.conf
	Fsync    bool     // defaults to false: only the server's crashes are survived
	BinDir   string   // where initdb and postgres are; defaults to those of this machine
}

// Cluster is a server of one test, for a test that stops it, breaks it or needs
// settings of its own. It needs the server programs on this machine: containers
// and SHARDCTL_TEST_DSN are not asked.
type Cluster struct {
	*localpg.Cluster
}

// NewCluster starts a server that is ended when the test ends.
func NewCluster(t testing.TB, options ClusterOptions) *Cluster {
	t.Helper()
	cluster, err := localpg.NewCluster(context.Background(), localpg.Options{
		BinDir: options.BinDir, Fsync: options.Fsync, Settings: options.Settings,
	})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("pgtest: close server: %v", err)
		}
	})
	return &Cluster{Cluster: cluster}
}

// Stop shuts the server down: "smart", "fast", "immediate" or "kill".
func (c *Cluster) Stop(t testing.TB, mode string) {
	t.Helper()
	if err := c.Cluster.Stop(context.Background(), mode); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// Start starts the server again, on the same port.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	if err := c.Cluster.Start(context.Background()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// NewDatabase makes a database on this server, for the test like the package's
// NewDatabase. What was left on it is looked at only if the server runs when the
// test ends.
func (c *Cluster) NewDatabase(t testing.TB) *Database {
	t.Helper()
	return newDatabase(t, c)
}
