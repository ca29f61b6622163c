package pgtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, "CREATE TABLE a (id int, note text); INSERT INTO a VALUES (1, NULL), (2, '')")
	if got := dbs[0].Rows(t, "SELECT * FROM a WHERE id <= $1 ORDER BY id", 2); !slices.Equal(got, []string{"1|NULL", "2|"}) {
		t.Errorf("rows: %q", got)
	}
	if got := dbs[1].Value(t, "SELECT to_regclass('a')"); got != "NULL" {
		t.Errorf("the other database has table a: %s", got)
	}
	conn := dbs[0].Connect(t)
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil || name != dbs[0].Name {
		t.Errorf("connected to %q: %v", name, err)
	}
	pgtest.Eventually(t, time.Second, func() bool { return dbs[1].Value(t, "SELECT 1") == "1" })
}
