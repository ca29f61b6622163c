package pgbouncer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/migrate"
)

// findings gives "severity id" of each finding, sorted, and all that they say.
func (w *world) findings() (ids []string, texts string) {
	w.t.Helper()
	r, err := pgbouncer.New(w.spec, w.spec.Topology[0])
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	d, err := r.Describe(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range d.Findings {
		ids = append(ids, string(f.Severity)+" "+f.ID)
		texts += fmt.Sprintf("%s: %s\n", f.Object, f.Message)
	}
	slices.Sort(ids)
	return ids, texts
}

func testDescribe(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	d, err := w.router().Describe(t.Context())
	if err != nil || len(d.Findings) > 0 || len(d.Instances) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	i := d.Instances[0]
	if !strings.HasPrefix(i.Version, "PgBouncer 1.") || i.PoolMode != "transaction" || i.QueryWait.Seconds() != 120 || len(i.Entries) != 2 {
		t.Errorf("%+v", i)
	}
	if e := i.Entries[1]; e.Name != "app_001" || e.Shard != 1 || e.To != "primary" || e.Address.DBName != w.dbs[0].Name || e.PoolMode != "transaction" || e.Paused {
		t.Errorf("%+v", e)
	}
}

func testFindings(t *testing.T, dbs []*pgtest.Database) {
	for name, c := range map[string]struct {
		lines    string
		settings []string
		prepare  func(w *world)
		want     []string
		text     string
	}{
		"session mode": {"app_000 = {source} pool_mode=session\napp_001 = {source}\n", nil, nil, []string{"error router.session_mode"}, "app_000: in session mode"},
		"session mode by default": {"app_000 = {source}\napp_001 = {source} pool_mode=transaction\n", []string{"pool_mode = session"}, nil,
			[]string{"error router.session_mode"}, "app_000: in session mode"},
		"a user in session mode": {lines(2) + "[users]\npostgres = pool_mode=session\n", nil, nil, []string{"warning router.user_session_mode"}, "postgres: these users"},
		"clients are ended early": {lines(2), []string{"query_wait_timeout = 1", "client_login_timeout = 1"}, nil,
			[]string{"error router.client_login_timeout", "error router.query_wait_timeout"}, "1s: clients would be ended"},
		"entries missing": {"other = {source}\n", nil, nil, []string{"error router.entry_missing"}, "app_000, app_001"},
		"an entry twice":  {lines(2) + "app_001 = host=h\n", nil, nil, []string{"error router.entry"}, "lines 3 and 4"},
		"a file of another pooler": {lines(2), nil, func(w *world) {
			w.spec.Topology[0].Instances[0].DatabasesFile = w.poolers[0].DatabasesFile + ".copy"
			content := strings.ReplaceAll(w.file(0), w.dbs[0].Name, w.dbs[1].Name)
			if err := os.WriteFile(w.poolers[0].DatabasesFile+".copy", []byte(content), 0o644); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"error router.not_loaded"}, "app_000, app_001"},
		"no file": {lines(2), nil, func(w *world) { w.spec.Topology[0].Instances[0].DatabasesFile = "/nonexistent/databases.ini" },
			[]string{"error router.file"}, "no such file"},
		"paused and disabled": {lines(2), nil, func(w *world) { w.admin(0, "PAUSE app_000"); w.admin(0, "DISABLE app_001") },
			[]string{"error router.disabled", "warning router.paused"}, "app_001: the entry is disabled"},
		"a shared port":  {lines(2), []string{"so_reuseport = 1"}, nil, []string{"warning router.reuseport"}, "so_reuseport"},
		"a long name":    {strings.Repeat("x-", 29) + "_000 = {source}\n" + strings.Repeat("x-", 29) + "_001 = {source}\n", nil, func(w *world) { w.spec.Topology[0].Entries[0].Database = strings.Repeat("x-", 29) + "_%03d" }, []string{"error router.entry_name"}, "no name as long"},
		"an unknown one": {lines(2), nil, func(w *world) { w.spec.Topology[0].Instances[0].AdminDSN += "&user=stranger" }, []string{"error router.unreachable"}, "stranger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 0, "")
			b := newPooler(t, localpg.PgBouncerOptions{Databases: strings.ReplaceAll(c.lines, "{source}", w.source()), Settings: c.settings})
			w.poolers = append(w.poolers, b)
			w.spec.Topology[0].Instances = []migrate.RouterInstance{{AdminDSN: migrate.Secret(b.AdminDSN()), DatabasesFile: b.DatabasesFile}}
			if c.prepare != nil {
				c.prepare(w)
			}
			ids, texts := w.findings()
			if !slices.Equal(ids, c.want) || !strings.Contains(texts, c.text) {
				t.Errorf("got %q, want %q and %q in:\n%s", ids, c.want, c.text, texts)
			}
		})
	}
}

func testUnreachablePoolerIsAFindingWithoutSecrets(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	closed, err := localpg.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	w.spec.Topology[0].Instances[0].AdminDSN = migrate.Secret(fmt.Sprintf("postgres://admin:pl4nted@127.0.0.1:%d/pgbouncer", closed))
	ids, texts := w.findings()
	if !slices.Equal(ids, []string{"error router.unreachable"}) || strings.Contains(texts, "pl4nted") {
		t.Errorf("%q: %s", ids, texts)
	}
}

// testOpenFiles has a pooler that tells its process by a pidfile, and lets in more
// clients than it may open files for.
func testOpenFiles(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 0, "")
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err) // the pooler runs as another user where the tests run as root
	}
	b := newPooler(t, localpg.PgBouncerOptions{Databases: strings.ReplaceAll(lines(2), "{source}", w.source()),
		Settings: []string{"pidfile = " + filepath.Join(dir, "pid"), "max_client_conn = 4000000"}})
	w.poolers = append(w.poolers, b)
	w.spec.Topology[0].Instances = []migrate.RouterInstance{{AdminDSN: migrate.Secret(b.AdminDSN()), DatabasesFile: b.DatabasesFile}}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	ids, texts := w.findings()
	if !slices.Equal(ids, []string{"warning router.open_files"}) {
		t.Errorf("%q: %s", ids, texts)
	}
	var files int
	if _, err := fmt.Sscanf(texts[strings.Index(texts, "may open"):], "may open %d files", &files); err != nil || !strings.Contains(string(limits), fmt.Sprint(files)) {
		t.Errorf("%d files, %v, in %s", files, err, limits)
	}
}
