package pgtest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestPgBouncerServesItsEntriesAndReloadsThem(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.ClusterOptions{})
	first, second := c.NewDatabase(t), c.NewDatabase(t)
	entry := func(db *pgtest.Database) string {
		return fmt.Sprintf("app = host=127.0.0.1 port=%d dbname=%s\n", c.Port(), db.Name)
	}
	b := pgtest.NewPgBouncer(t, entry(first), "app_user")
	if got := through(t, b.DSN("app"), "SELECT current_database()"); got != first.Name {
		t.Fatalf("entry app leads to %s, not %s", got, first.Name)
	}

	if err := os.WriteFile(b.DatabasesFile, []byte("[databases]\n"+entry(second)), 0o644); err != nil {
		t.Fatal(err)
	}
	through(t, b.AdminDSN(), "RELOAD")
	pgtest.Eventually(t, 5*time.Second, func() bool {
		return through(t, b.DSN("app"), "SELECT current_database()") == second.Name
	})

	b.Kill(t)
	b.Start(t)
	if got := through(t, b.DSN("app"), "SELECT current_database()"); got != second.Name {
		t.Errorf("after a kill entry app leads to %s, not %s", got, second.Name)
	}
}

// through runs one statement by the simple protocol, which is all that the
// console speaks, and gives the first value.
func through(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}
