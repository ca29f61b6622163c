package journey

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
)

const (
	operator = "operator" // whom shardctl is: a superuser with a password
	app      = "app"      // whom the application is, through the pooler
)

// password stands in every DSN that shardctl is given; no trace of it may be left.
const password = "S3cr3t-4711-zebra"

//go:embed testdata/schema.sql
var schemaSQL string

// world is the servers of one test, and what commands said.
type world struct {
	shape
	t       testing.TB
	dir     string
	source  *pgtest.Cluster
	targets []*pgtest.Cluster // share the databases
	bouncer *localpg.PgBouncer
	spec    string
	env     []string

	mu       sync.Mutex
	commands []*binary.Command // all that were started
}

// newWorld starts the servers and makes the application's tables, without rows.
func newWorld(t testing.TB, s shape) *world {
	t.Helper()
	w := &world{shape: s, t: t, dir: publicFolder(t)}
	hba := filepath.Join(w.dir, "pg_hba.conf")
	must(t, os.WriteFile(hba, []byte("local all all trust\nhost replication all 127.0.0.1/32 trust\nhost all "+operator+" 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"), 0o644))
	settings := slices.Concat([]string{
		"hba_file='" + hba + "'", "password_encryption=scram-sha-256", "max_connections=200", "shared_buffers=128MB", "max_wal_size=4GB", "wal_level=logical",
		"max_prepared_transactions=10", "log_lock_waits=on", "log_autovacuum_min_duration=-1",
	}, s.settings)
	w.source = pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: settings})
	for range max(1, s.servers) {
		w.targets = append(w.targets, pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: settings}))
	}
	w.makeDatabases()
	w.startPooler()
	w.writeSpec()
	return w
}

// publicFolder is a folder that the servers' account may read too.
func publicFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shardctl-journey-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

func (w *world) makeDatabases() {
	roles := "CREATE ROLE " + operator + " SUPERUSER LOGIN PASSWORD '" + password + "'; CREATE ROLE app_owner; CREATE ROLE " + app + " LOGIN"
	for _, c := range append([]*pgtest.Cluster{w.source}, w.targets...) {
		w.exec(c.DSN("postgres"), roles)
	}
	w.exec(w.source.DSN("postgres"), "CREATE DATABASE app OWNER app_owner")
	schema := schemaSQL
	if w.always {
		schema = strings.ReplaceAll(schema, "BY DEFAULT AS IDENTITY", "ALWAYS AS IDENTITY")
	}
	w.exec(w.sourceDSN(), "GRANT CREATE ON SCHEMA public TO app_owner")
	w.exec(w.sourceDSN(), "SET ROLE app_owner;"+schema)
	for i := range w.databases() {
		w.exec(w.targetOf(i).DSN("postgres"), "CREATE DATABASE app_"+w.database(i)+" OWNER app_owner")
	}
}

// targetOf is the server of a database.
func (w *world) targetOf(database int) *pgtest.Cluster { return w.targets[database%len(w.targets)] }

// sourceDSN and databaseDSN are the tests' own ways in, without a password.
func (w *world) sourceDSN() string { return w.source.DSN("app") }

func (w *world) databaseDSN(database int) string {
	return w.targetOf(database).DSN("app_" + w.database(database))
}

// startPooler starts PgBouncer with an entry for each shard, all on the source, and one
// that is none of shardctl's business.
func (w *world) startPooler() {
	var b strings.Builder
	b.WriteString("; kept by hand\n[databases]\n")
	entries := map[string]bool{}
	for shard := range w.home {
		if name := w.entry(shard); !entries[name] {
			entries[name] = true
			fmt.Fprintf(&b, "%s = host=127.0.0.1 port=%d dbname=app pool_size=4\n", name, w.source.Port())
		}
	}
	b.WriteString(w.untouchedEntry() + "\n")
	var err error
	w.bouncer, err = localpg.NewPgBouncer(context.Background(), localpg.PgBouncerOptions{
		Databases: b.String(), Users: []string{app, operator}, Settings: []string{"max_client_conn = 500", "query_wait_timeout = 60"},
	})
	must(w.t, err)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("of the pooler's log:\n%s", complaints(w.bouncer.LogFile()))
		}
		must(w.t, w.bouncer.Close())
	})
}

// complaints are the last lines of a pooler's log that say what went wrong.
func complaints(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool {
		return !strings.Contains(line, "WARNING") && !strings.Contains(line, "ERROR") && !strings.Contains(line, "closing because: server")
	})
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// untouchedEntry is a text that no command may change.
func (w *world) untouchedEntry() string {
	return fmt.Sprintf("; everywhere tables are written here\napp_source =   host=127.0.0.1 port=%d   dbname=app pool_size=4", w.source.Port())
}

func (w *world) topologyFile() string { return filepath.Join(w.dir, "topology.json") }

// writeSpec writes the spec and makes the environment of commands: nothing that
// begins as shardctl's or libpq's variables do is passed on.
func (w *world) writeSpec() {
	w.spec = filepath.Join(w.dir, "shardctl.yaml")
	must(w.t, os.WriteFile(w.spec, []byte(w.specText(w.bouncer.DatabasesFile, w.topologyFile())), 0o600))
	w.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHARDCTL_") || strings.HasPrefix(v, "PG") })
	w.env = append(w.env, "SOURCE_DSN="+secretDSN(w.source.Port(), operator, "app"),
		"PGB_ADMIN="+secretDSN(w.bouncer.Port(), localpg.Superuser, "pgbouncer"))
	for i := range w.databases() {
		w.env = append(w.env, fmt.Sprintf("DB%d_DSN=%s", i, secretDSN(w.targetOf(i).Port(), operator, "app_"+w.database(i))))
	}
}

func secretDSN(port int, user, database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, port, database)
}

// exec runs statements on a session of its own.
func (w *world) exec(dsn, sql string) {
	w.t.Helper()
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// texts reads one text column.
func (w *world) texts(dsn, sql string, args ...any) (lines []string) {
	w.t.Helper()
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return lines
}

// on opens a session for one piece of work.
func (w *world) on(dsn string, work func(context.Context, *pgx.Conn) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), binary.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	must(w.t, err)
	defer func() { _ = conn.Close(ctx) }()
	if err := work(ctx, conn); err != nil {
		w.t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
