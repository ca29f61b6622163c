package journey

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/localpg"
)

// mistake is one bad input: what is changed in the spec, the environment or on a server,
// and what the command has to say.
type mistake struct {
	name     string
	from, to string // text of the spec
	unset    string // a variable
	set      string // NAME=value
	setup    string // on the source
	undo     string
	args     string
	code     int
	place    string // what the error names
	hint     string // and of the way out
}

// tiny has few rows; the line numbers of its spec count.
var tiny = shape{migration: "tiny", home: []int{0, 1}, schema: "shard_%03d", blocks: 60, writers: 1}

var specMistakes = []mistake{
	{name: "malformed", from: "databases:\n", to: "databases: [\n", args: "plan", code: 64, place: "line "},
	{name: "unknown key", from: "source:\n", to: "sourse:\n", args: "plan", code: 64, place: "line 3", hint: "source"},
	{name: "unknown key of a table", from: "    version: version", to: "    versoin: version", args: "plan", code: 64, place: "line 18", hint: "version"},
	{name: "shard placed twice", from: "db1: \"1\"", to: "db1: \"0,1\"", args: "prepare", code: 64, place: "line 14"},
	{name: "shard placed nowhere", from: "count: 2", to: "count: 3", args: "prepare", code: 64, place: "2"},
	{name: "bad range", from: "db1: \"1\"", to: "db1: \"1-x\"", args: "plan", code: 64, place: "line 14"},
	{name: "unset variable", unset: "DB1_DSN", args: "plan", code: 64, place: "line 7", hint: "DB1_DSN"},
	{name: "no spec", args: "plan --file /nonexistent/shardctl.yaml", code: 64, place: "/nonexistent/shardctl.yaml", hint: "--file"},
	{name: "unknown flag", args: "plan --nonsense", code: 64, place: "nonsense", hint: "--help"},
	{name: "unknown command", args: "plam", code: 64, place: "plam"},
	{name: "unknown argument", args: "prepare db0", code: 64, place: "db0"},
	{name: "wrong engine", to: "capture: {engine: wal}\n", args: "plan", code: 64, place: "line "},
	{name: "malformed DSN", set: "DB0_DSN=postgres://%zz", args: "prepare", code: 64, place: "db0"},
}

var serverMistakes = []mistake{
	{name: "wrong password", set: "SOURCE_DSN=wrong", args: "prepare", code: 1, place: "source", hint: "DSN"},
	{name: "wrong password of a database", set: "DB1_DSN=wrong", args: "prepare", code: 1, place: "db1", hint: "DSN"},
	{name: "source down", set: "SOURCE_DSN=down", args: "prepare", code: 1, place: "source", hint: "up"},
	{name: "database down", set: "DB1_DSN=down", args: "prepare", code: 1, place: "db1", hint: "up"},
	{name: "status of a source that is down", set: "SOURCE_DSN=down", args: "status", code: 1, place: "source"},
	{name: "table missing", from: "public.plan", to: "public.plans", args: "prepare", code: 4, place: "public.plans"},
	{name: "a view", setup: "CREATE VIEW public.plan_view AS SELECT * FROM public.plan", undo: "DROP VIEW public.plan_view", from: "public.plan", to: "public.plan_view", args: "prepare", code: 4, place: "public.plan_view", hint: "view"},
	{name: "no primary key", setup: "CREATE TABLE public.bare (id int)", undo: "DROP TABLE public.bare", from: "public.plan", to: "public.bare", args: "prepare", code: 4, place: "public.bare", hint: "PRIMARY KEY"},
	{name: "key column missing", from: "key: workspace_id", to: "key: workspace", args: "prepare", code: 4, place: "public.block"},
	{name: "NULL keys", setup: "ALTER TABLE public.block ALTER workspace_id DROP NOT NULL; INSERT INTO public.block (id, doc) VALUES ('00000000-0000-0000-0000-000000000001', '{}')",
		undo: "DELETE FROM public.block WHERE workspace_id IS NULL; ALTER TABLE public.block ALTER workspace_id SET NOT NULL", args: "prepare", code: 4, place: "public.block.workspace_id"},
	{name: "the source as a database", set: "DB1_DSN=source", args: "prepare", code: 4, place: "db1"},
	{name: "install too early", args: "install", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "catchup too early", args: "catchup", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "backfill too early", args: "backfill", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "verify too early", args: "verify", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "cutover too early", args: "cutover --yes", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "rollback too early", args: "rollback --yes", code: 4, place: "new", hint: "shardctl prepare"},
	{name: "complete too early", args: "complete --yes", code: 4, place: "new", hint: "shardctl prepare"},
}

// TestBadInput: each mistake gets one line that names the place and the way out, the right
// exit code, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiny)
	w.load()
	before := w.catalogs()
	for _, m := range slices.Concat(specMistakes, serverMistakes) {
		t.Run(m.name, func(t *testing.T) { w.make(t, m) })
	}
	w.unchanged(t, before, "one of these mistakes")
	t.Run("foreign rows", func(t *testing.T) { w.foreignRows(t) })
	t.Run("edited half-way and begun twice", func(t *testing.T) { w.halfWay(t) })
}

// make makes a mistake and judges what is said of it.
func (w *world) make(t *testing.T, m mistake) {
	t.Helper()
	if m.setup != "" {
		w.exec(w.sourceDSN(), m.setup)
		defer w.exec(w.sourceDSN(), m.undo)
	}
	spec := w.edited(t, m)
	env := w.environment(t, m)
	args := append([]string{"--file", spec}, strings.Fields(m.args)...)
	between := w.catalogs()
	c := binary.Begin(t, env, args...)
	r := c.Wait(t)
	w.unchanged(t, between, m.args)
	// One mistake may come with others that follow from it, each on its line.
	named := false
	for _, line := range strings.Split(strings.TrimSuffix(r.Stderr, "\n"), "\n") {
		named = named || strings.Contains(line, m.place) && strings.Contains(line, m.hint)
		if !strings.HasPrefix(line, "error: ") {
			t.Errorf("not a line of error: %s", line)
		}
	}
	if r.Code != m.code || r.Stdout != "" || !named {
		t.Errorf("want exit %d and a line with %q and %q: %s", m.code, m.place, m.hint, r)
	}
	j := binary.Begin(t, env, append(args, "-o", "json")...)
	as := j.Wait(t)
	doc, err := as.Document()
	if err != nil || as.Code != m.code {
		t.Fatalf("as JSON: %v: %s", err, as)
	}
	failure, _ := doc["error"].(map[string]any)
	hasKeys(t, "error", failure, errorKeys)
	if text(failure, "exit") != fmt.Sprint(m.code) {
		t.Errorf("as JSON the exit code is %s: %v", text(failure, "exit"), failure)
	}
	if all := r.Stderr + as.Stdout + as.Stderr; strings.Contains(all, password) || strings.Contains(all, "wr0ng") {
		t.Errorf("a password was printed: %s", all)
	}
}

// edited writes the spec with the mistake.
func (w *world) edited(t *testing.T, m mistake) string {
	t.Helper()
	text, err := os.ReadFile(w.spec)
	must(t, err)
	if !strings.Contains(string(text), m.from) {
		t.Fatalf("the spec has no %q:\n%s", m.from, text)
	}
	edited := string(text) + m.to
	if m.from != "" {
		edited = strings.Replace(string(text), m.from, m.to, 1)
	}
	path := filepath.Join(t.TempDir(), "shardctl.yaml")
	must(t, os.WriteFile(path, []byte(edited), 0o600))
	return path
}

// environment has the mistake; some values stand for what is known only now.
func (w *world) environment(t *testing.T, m mistake) []string {
	t.Helper()
	env := slices.Clone(w.env)
	if m.unset != "" {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, m.unset+"=") })
	}
	name, value, _ := strings.Cut(m.set, "=")
	port, database := w.source.Port(), "app"
	if name == "DB1_DSN" {
		port, database = w.targetOf(1).Port(), "app_db1"
	}
	switch value {
	case "wrong":
		value = strings.Replace(secretDSN(port, operator, database), password, "wr0ng", 1)
	case "down":
		nobody, err := localpg.FreePort()
		must(t, err)
		value = secretDSN(nobody, operator, database)
	case "source":
		value = secretDSN(w.source.Port(), operator, "app") + "&application_name=other"
	}
	if name != "" {
		env = append(env, name+"="+value)
	}
	return env
}

// foreignRows: a target table of ours that somebody else made, with rows, stays as it is.
func (w *world) foreignRows(t *testing.T) {
	w.exec(w.databaseDSN(0), "CREATE SCHEMA shard_000; CREATE TABLE shard_000.block (id int); INSERT INTO shard_000.block VALUES (7)")
	w.make(t, mistake{args: "prepare", code: 4, place: "db0.shard_000.block"})
	if rows := w.texts(w.databaseDSN(0), "SELECT id::text FROM shard_000.block"); len(rows) != 1 || rows[0] != "7" {
		t.Errorf("the foreign table holds %v", rows)
	}
	w.exec(w.databaseDSN(0), "DROP SCHEMA shard_000 CASCADE")
}

// halfWay: a spec that is edited under way, phases in the wrong order later on, and two
// orchestrators.
func (w *world) halfWay(t *testing.T) {
	w.must(t, "prepare")
	w.make(t, mistake{from: "version: version", to: "rollback: full", args: "install", code: 4, place: "public.block", hint: "version"})
	w.make(t, mistake{from: "schema: \"shard_%03d\"", to: "schema: \"part_%03d\"", args: "status", code: 4, place: "shards.schema", hint: "part_%03d"})
	w.make(t, mistake{args: "backfill", code: 4, place: "prepared", hint: "shardctl install"})
	w.twoOperators(t)
	w.make(t, mistake{args: "cutover --yes", code: 4, place: "installed", hint: "shardctl backfill"})
	w.make(t, mistake{args: "abort", code: 64, place: "abort", hint: "--yes"})
	catchup := w.begin(t, "catchup")
	eventually(t, time.Minute, "catchup to hold its lease", func() bool { return text(w.must(t, "status"), "capture.running") == "true" })
	w.make(t, mistake{args: "catchup", code: 5, place: fmt.Sprint(catchup.PID())})
	if r := catchup.Interrupt(t); r.Code != 130 {
		t.Errorf("an interrupted catchup: %s", r)
	}
}

// twoOperators: an install that waits for a lock holds the lease; another one is told who
// holds it.
func (w *world) twoOperators(t *testing.T) {
	t.Helper()
	var first *binary.Command
	w.on(w.sourceDSN(), func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "BEGIN; LOCK public.block IN ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		first = w.begin(t, "install")
		eventually(t, time.Minute, "install to wait for the lock", func() bool {
			return len(w.texts(w.sourceDSN(), "SELECT pid::text FROM pg_stat_activity WHERE application_name = 'shardctl install' AND wait_event_type = 'Lock'")) > 0
		})
		second := binary.Begin(t, w.env, "install", "--file", w.spec)
		r := second.Wait(t)
		if r.Code != 5 || !strings.Contains(r.Stderr, fmt.Sprint(first.PID())) {
			t.Errorf("a second install: %s", r)
		}
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	})
	if r := first.Wait(t); r.Code != 0 {
		t.Errorf("the first install: %s", r)
	}
}
