package pgbouncer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/migrate"
)

func wantCode(t *testing.T, err error, code string, texts ...string) {
	t.Helper()
	f := (*migrate.Failure)(nil)
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got %v, want the code %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is missing in: %v", text, err)
		}
	}
}

// testHostileFileStaysByteForByte flips and flips back in a file as people write them.
func testHostileFileStaysByteForByte(t *testing.T, dbs []*pgtest.Database) {
	const hostile = "; app_000 = host=commented out\r\n# [databases]\r\n[databases]\r\n" +
		"everywhere={source}\r\n\r\n" +
		"\tapp_000\t =   {source}   pool_size=3 application_name='it''s ''quoted'' = host=no'  \r\n" +
		"%include {include}\r\n" +
		"app_001=port=1 connect_query='SELECT 1' host='elsewhere'\r\n" +
		"app_0010 = host=not-ours port=7\r\n" +
		"* = {source}\r\n" +
		"[users]\r\napp_000 = pool_mode=transaction\r\n[databases]\r\nlast.one-of = {source} dbname='with space'"
	w := newWorld(t, dbs, 2, 1, lines(2))
	include := filepath.Join(t.TempDir(), "more.ini")
	file := strings.ReplaceAll(strings.ReplaceAll(hostile, "{source}", w.source()), " dbname='with space'", "")
	file = strings.ReplaceAll(file, "{include}", include)
	if err := errors.Join(os.Chmod(filepath.Dir(include), 0o755), os.Chmod(filepath.Dir(filepath.Dir(include)), 0o755), os.WriteFile(include, []byte("included = "+w.source()), 0o644), os.WriteFile(w.poolers[0].DatabasesFile, []byte(file), 0o640)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(w.poolers[0].DatabasesFile)
	r := w.router()
	for epoch, moved := range []string{"", "db0", "db0 db1", ""} {
		doc := w.document(int64(epoch+1), moved)
		if err := errors.Join(r.Commit(t.Context(), doc), r.ReadBack(t.Context(), doc)); err != nil {
			t.Fatal(err)
		}
		names := []string{doc.Shards[0].DBName, doc.Shards[1].DBName}
		want := fmt.Sprintf("; shardctl blocks epoch %d\r\n", epoch+1) + file
		want = strings.Replace(want, "app_000\t =   "+w.source()+"   pool_size=3 application_name='it''s ''quoted'' = host=no'",
			fmt.Sprintf("app_000\t =   host=%s port=%d dbname=%s   pool_size=3 application_name='it''s ''quoted'' = host=no' connect_query='SET search_path = shard_000, public, \"Odd Schema\"'", w.host, w.port, names[0]), 1)
		want = strings.Replace(want, "app_001=port=1 connect_query='SELECT 1' host='elsewhere'",
			fmt.Sprintf("app_001=port=%d connect_query='SET search_path = shard_001, public, \"Odd Schema\"' host=%s dbname=%s", w.port, w.host, names[1]), 1)
		if got := w.file(0); got != want {
			t.Fatalf("epoch %d:\ngot  %q\nwant %q", epoch+1, got, want)
		}
	}
	after, _ := os.Stat(w.poolers[0].DatabasesFile)
	if before.Mode() != after.Mode() || before.Sys().(*syscall.Stat_t).Uid != after.Sys().(*syscall.Stat_t).Uid {
		t.Errorf("mode or owner changed: %v to %v", before.Mode(), after.Mode())
	}
	for _, entry := range []string{"everywhere", "included", "app_000"} {
		if got := w.leadsTo(0, entry); got != w.dbs[0].Name {
			t.Errorf("%s leads to %s", entry, got)
		}
	}
}

// testSearchPath shows that one unqualified statement works before and after.
func testSearchPath(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	w.dbs[0].Exec(t, `CREATE TABLE public.t AS SELECT 'source' AS home; CREATE SCHEMA "Odd Schema"; CREATE TABLE "Odd Schema".t2 AS SELECT 'odd' AS home`)
	w.dbs[2].Exec(t, `CREATE SCHEMA shard_001; CREATE TABLE shard_001.t AS SELECT 'shard_001' AS home; CREATE TABLE public.t AS SELECT 'wrong' AS home`)
	r := w.router()
	for epoch, want := range []string{"source", "shard_001", "source"} {
		moved := ""
		if want != "source" {
			moved = "db1"
		}
		if err := r.Commit(t.Context(), w.document(int64(epoch+1), moved)); err != nil {
			t.Fatal(err)
		}
		if got, err := w.through(within(t, 5*time.Second), 0, "app_001", "SELECT home FROM t"); err != nil || got != want {
			t.Errorf("t is that of %s, %v; want %s", got, err, want)
		}
	}
	if got, err := w.through(within(t, 5*time.Second), 0, "app_000", "SELECT home FROM t2"); err != nil || got != "odd" {
		t.Errorf("t2 is that of %s, %v", got, err)
	}
}

func testUnfitFilesAreRefusedAndLeftAlone(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	s := w.source()
	for name, c := range map[string]struct{ file, text string }{
		"an entry twice":      {"[databases]\napp_000 = " + s + "\napp_001 = " + s + "\napp_000 = host=h\n", "app_000 stands there twice, in lines 2 and 4"},
		"an entry missing":    {"[databases]\napp_000 = " + s + "\n", "no entry app_001"},
		"in another section":  {"[users]\napp_000 = " + s + "\napp_001 = " + s + "\n", "no entry app_000"},
		"unreadable entry":    {"[databases]\napp_000 = " + s + "\napp_001 = host='h\n", "line 3: entry app_001"},
		"a broken other line": {"[databases]\napp_000 = " + s + "\napp_001 = " + s + "\n???\n", "line 4"},
	} {
		if err := os.WriteFile(w.poolers[0].DatabasesFile, []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		doc := w.document(1, "db0")
		_, probed := r.Probe(t.Context(), doc, nil)
		for what, err := range map[string]error{"commit": r.Commit(t.Context(), doc), "probe": probed} {
			if err == nil || w.file(0) != c.file {
				t.Errorf("%s: %s: %v", name, what, err)
				continue
			}
			wantCode(t, err, "router.file", c.text, w.poolers[0].DatabasesFile)
		}
	}
}

// testReadBackFindsABrokenFile has a line that the pooler cannot read, and RELOAD
// answers OK all the same.
func testReadBackFindsABrokenFile(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	content := "[databases]\nothers = host=h no_such_parameter=1\n" + strings.ReplaceAll(lines(2), "{source}", w.source())
	if err := os.WriteFile(w.poolers[0].DatabasesFile, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	r := w.router()
	doc := w.document(1, "db0 db1")
	if err := r.Commit(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	wantCode(t, r.ReadBack(t.Context(), doc), "router.read_back", "app_000 leads to", w.dbs[0].Name, w.dbs[1].Name)
}

// testOneNameForAll is an entry whose name holds no number.
func testOneNameForAll(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, "app = {source} connect_query='SELECT 1'\n")
	w.spec.Topology[0].Entries = []migrate.RouterEntry{{Database: "app", To: "primary"}}
	r := w.router()
	before := w.file(0)
	wantCode(t, r.Commit(t.Context(), w.document(1, "db0")), "router.entry", "app: one entry cannot lead to")
	if w.file(0) != before {
		t.Errorf("it was written: %q", w.file(0))
	}
	w.spec.Shards.Placement = []string{"db1", "db1"}
	doc := w.document(2, "db1")
	if err := errors.Join(r.Commit(t.Context(), doc), r.ReadBack(t.Context(), doc)); err != nil {
		t.Fatal(err)
	}
	if got := w.leadsTo(0, "app"); got != w.dbs[2].Name || !strings.Contains(w.file(0), "connect_query='SELECT 1'") {
		t.Errorf("it leads to %s: %s", got, w.file(0))
	}
}

func testReaders(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2)+"ro_000 = {source}\nro_001 = {source}\n")
	w.spec.Topology[0].Entries = append(w.spec.Topology[0].Entries, migrate.RouterEntry{Database: "ro_%03d", To: "reader"})
	w.spec.Databases[0].Reader = migrate.Address{DBName: w.dbs[2].Name}
	r := w.router()
	doc := w.document(1, "db0")
	if err := errors.Join(r.Commit(t.Context(), doc), r.ReadBack(t.Context(), doc)); err != nil {
		t.Fatal(err)
	}
	if w.leadsTo(0, "app_000") != w.dbs[1].Name || w.leadsTo(0, "ro_000") != w.dbs[2].Name || w.leadsTo(0, "ro_001") != w.dbs[0].Name {
		t.Error(w.file(0))
	}
}

// testFileVia reaches the file by a command, as on another host.
func testFileVia(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	script := filepath.Join(t.TempDir(), "via.sh")
	body := "#!/bin/sh\nset -e\ncase $1 in read) cat \"$2\";; write) cat > \"$2.new\"; chmod 644 \"$2.new\"; mv \"$2.new\" \"$2\";; esac\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	w.spec.Topology[0].Instances[0].FileVia = []string{"/bin/sh", script}
	r := w.router()
	doc := w.document(1, "db0 db1")
	_, probed := r.Probe(t.Context(), doc, nil)
	if err := errors.Join(probed, r.Commit(t.Context(), doc), r.ReadBack(t.Context(), doc)); err != nil {
		t.Fatal(err)
	}
	if got := w.leadsTo(0, "app_001"); got != w.dbs[2].Name {
		t.Errorf("it leads to %s", got)
	}
}

func TestNewRefuses(t *testing.T) {
	spec := &migrate.Spec{Migration: "m", Shards: migrate.Shards{Count: 1, Schema: "s"}}
	for dsn, text := range map[migrate.Secret]string{
		"postgres://admin:planted@h1:6432,h2:6432/pgbouncer": "several hosts",
		"postgres://admin:planted@h1:nonsense/pgbouncer":     "cannot be parsed",
	} {
		_, err := pgbouncer.New(spec, migrate.Router{Instances: []migrate.RouterInstance{{AdminDSN: dsn, DatabasesFile: "f"}}})
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%v", err)
		}
	}
}
