package pgtest_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestClusterComesBackAfterACrashOnItsPort(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: []string{"wal_level=logical", "max_connections=30"}})
	db := c.NewDatabase(t)
	db.Exec(t, "CREATE TABLE a (id int); INSERT INTO a VALUES (7)")
	if got := db.Value(t, "SHOW wal_level") + db.Value(t, "SHOW max_connections"); got != "logical30" {
		t.Errorf("settings: %s", got)
	}
	before := c.DSN(db.Name)
	for _, mode := range []string{"immediate", "kill", "fast"} {
		c.Stop(t, mode)
		if c.Running() {
			t.Errorf("%s: still running", mode)
		}
		c.Start(t)
		if got := db.Value(t, "SELECT id FROM a"); got != "7" || c.DSN(db.Name) != before {
			t.Errorf("%s: row %s at %s", mode, got, c.DSN(db.Name))
		}
	}
}
