package postgres_test

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// finding is the one that a router's Describe has; none is an empty one.
func finding(t *testing.T, r *postgres.Router) migrate.Finding {
	t.Helper()
	d, err := r.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Findings) == 0 {
		return migrate.Finding{}
	}
	f := d.Findings[0]
	if len(d.Findings) > 1 || f.Severity != migrate.SeverityError || f.Fix == nil || *f.Fix == "" || !strings.HasPrefix(f.Object, "postgres ") {
		t.Errorf("findings: %+v", d.Findings)
	}
	return f
}

func TestServerDown(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.ClusterOptions{})
	dsn := strings.Replace(c.DSN("postgres"), "postgres@", "postgres:pl4nted@", 1)
	r := router(t, dsn)
	doc := document(t, 1, "db0")
	if err := r.Commit(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	c.Stop(t, "immediate")
	if f := finding(t, r); f.ID != "router.unreachable" || strings.Contains(fmt.Sprint(f), "pl4nted") {
		t.Errorf("finding: %+v", f)
	}
	_, probed := r.Probe(t.Context(), doc, nil)
	for what, err := range map[string]error{"open": r.Open(t.Context()), "probe": probed, "commit": r.Commit(t.Context(), doc), "read back": r.ReadBack(t.Context(), doc), "forget": r.Forget(t.Context())} {
		if code(err) != "connect.failed" || migrate.ExitCode(err) != migrate.ExitError || strings.Contains(err.Error(), "pl4nted") {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.Start(t)
	if err := r.ReadBack(t.Context(), doc); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func TestPrivilegesThatAreMissingAreFoundWithTheirFix(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	role := "writer_" + db.Name
	db.Exec(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { db.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	r := router(t, strings.Replace(db.DSN(), "postgres@", role+"@", 1))
	doc := document(t, 1, "source")
	for _, c := range []struct{ name, given, id string }{
		{"schema missing", "SELECT", "router.privilege"},
		{"table missing", "DROP TABLE " + table + "; GRANT USAGE ON SCHEMA shardctl_topology TO " + role, "router.privilege"},
		{"schema not to be used", "REVOKE ALL ON SCHEMA shardctl_topology FROM " + role, "router.privilege"},
		{"table not to be read", "REVOKE SELECT ON " + table + " FROM " + role, "router.privilege"},
		{"table not to be written", "REVOKE UPDATE ON " + table + " FROM " + role, "router.privilege"},
		{"rows hidden", "ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY", "router.row_security"},
	} {
		db.Exec(t, c.given)
		f := finding(t, r)
		if f.ID != c.id {
			t.Fatalf("%s: %+v", c.name, f)
		}
		if _, err := r.Probe(t.Context(), doc, nil); code(err) != c.id || migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), *f.Fix) {
			t.Errorf("%s: probe: %v", c.name, err)
		}
		db.Exec(t, *f.Fix)
		if f := finding(t, r); f.ID != "" {
			t.Errorf("%s: after the fix: %+v", c.name, f)
		}
		if err := r.Commit(t.Context(), doc); err != nil {
			t.Errorf("%s: after the fix: %v", c.name, err)
		}
	}
}

func TestATableOfAnotherShapeIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, "CREATE SCHEMA shardctl_topology")
	r := router(t, db.DSN())
	for _, columns := range []string{
		"(id int)",
		"(migration text, epoch bigint, document jsonb, updated timestamptz)",
		"(migration text PRIMARY KEY, epoch int, document jsonb, updated timestamptz)",
		"(migration text PRIMARY KEY, epoch bigint, document json, updated timestamptz)",
	} {
		db.Exec(t, "DROP TABLE IF EXISTS "+table+"; CREATE TABLE "+table+columns)
		_, err := r.Probe(t.Context(), document(t, 1, "source"), nil)
		if f := finding(t, r); f.ID != "router.table" || code(err) != "router.table" {
			t.Errorf("%s: %+v, %v", columns, f, err)
		}
	}
}

func TestAPoolerInBetweenIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	u, err := url.Parse(db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	pooler := pgtest.NewPgBouncer(t, fmt.Sprintf("[databases]\napp = host=%s port=%s dbname=%s\n", u.Hostname(), u.Port(), db.Name))
	r := router(t, pooler.DSN("app"))
	if f := finding(t, r); f.ID != "router.pooler" {
		t.Errorf("%+v", f)
	}
	if err := r.Open(t.Context()); code(err) != "connect.pooler" {
		t.Errorf("open: %v", err)
	}
}

func TestARowThatIsLockedIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	if err := r.Commit(t.Context(), document(t, 1, "source")); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+table+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := r.Commit(t.Context(), document(t, 2, "db0")); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(t.Context(), document(t, 2, "db0")); err != nil {
		t.Error(err)
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connection, nobody speaks
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	r := router(t, "postgres://u:pl4nted@"+silent.Addr().String()+"/routing?sslmode=disable")
	start := time.Now()
	if f := finding(t, r); f.ID != "router.unreachable" || strings.Contains(fmt.Sprint(f), "pl4nted") || time.Since(start) > 20*time.Second {
		t.Errorf("after %s: %+v", time.Since(start), f)
	}
}

func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewCluster(t, pgtest.ClusterOptions{})
	standby, err := localpg.NewStandby(t.Context(), primary.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	r := router(t, standby.DSN("postgres"))
	_, err = r.Probe(t.Context(), document(t, 1, "source"), nil)
	if f := finding(t, r); f.ID != "router.read_only" || code(err) != "router.read_only" {
		t.Errorf("%+v; probe: %v", f, err)
	}
}
