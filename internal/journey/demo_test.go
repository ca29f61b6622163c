package journey

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// demoEnv is the environment of a demo that has a folder of its own for all it makes.
func demoEnv(t *testing.T) (env []string, folder string) {
	folder = publicFolder(t)
	env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHARDCTL_") || strings.HasPrefix(v, "TMPDIR=") })
	return append(env, "TMPDIR="+folder), folder
}

// nothingLeft waits until no process and no file of a demo is left.
func nothingLeft(t *testing.T, folder string, within time.Duration) {
	t.Helper()
	var left []string
	deadline := time.Now().Add(within)
	pgtest.Eventually(t, within+time.Minute, func() bool {
		left = processesOf(t, folder)
		files, err := os.ReadDir(folder)
		must(t, err)
		for _, f := range files {
			left = append(left, "file "+f.Name())
		}
		return len(left) == 0 || time.Now().After(deadline)
	})
	if len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
}

// TestAStoppedDemoLeavesNothing: by Ctrl-C or by TERM, whatever it is doing.
func TestAStoppedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, stop := range []struct {
		phase  string
		signal syscall.Signal
	}{
		{"starting servers", syscall.SIGINT}, {"prepare", syscall.SIGTERM}, {"backfill", syscall.SIGINT},
		{"cutover", syscall.SIGINT}, {"rollback", syscall.SIGTERM},
	} {
		t.Run(stop.phase, func(t *testing.T) {
			env, folder := demoEnv(t)
			c := binary.Begin(t, env, "demo", "--rows", "1000", "--shards", "4", "--no-progress", "--keep")
			pgtest.Eventually(t, binary.Patience, func() bool {
				return c.Ended() || strings.Contains(c.Stderr(), "==> "+stop.phase+"\n") && initdbRuns(t, folder)
			})
			c.Signal(t, stop.signal)
			r := c.Wait(t)
			if r.Code != 130 || !strings.Contains(r.Stderr, "everything it started is gone") || r.Stdout != "" {
				t.Errorf("stopped in %q: %s", stop.phase, r)
			}
			nothingLeft(t, folder, 0)
		})
	}
}

// initdbRuns reports whether the first server's initdb has begun, at least.
func initdbRuns(t *testing.T, folder string) bool {
	begun, err := filepath.Glob(filepath.Join(folder, "*", "data", "PG_VERSION"))
	must(t, err)
	return len(begun) > 0
}

// TestAKilledDemoLeavesNothing: the servers end with it, the next demo removes the rest.
func TestAKilledDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	env, folder := demoEnv(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		c := binary.Begin(t, env, "demo", "--rows", "1000", "--shards", "4", "--no-progress", "--keep")
		pgtest.Eventually(t, binary.Patience, func() bool { return strings.Contains(c.Stderr(), "==> plan\n") || c.Ended() })
		c.Signal(t, signal)
		if r := c.Wait(t); signal == syscall.SIGINT && r.Code != 130 {
			t.Errorf("stopped: %s", r)
		}
		pgtest.Eventually(t, binary.Patience, func() bool { return len(processesOf(t, folder)) == 0 })
	}
	nothingLeft(t, folder, 0)
}

// keptDemo is what a kept demo says of itself.
type keptDemo struct {
	Folder, Spec, Ledger, Source, Pooler, Key, Stop string

	Databases []string
}

func TestAKeptDemoStays(t *testing.T) {
	t.Parallel()
	env, folder := demoEnv(t)
	r := binary.Begin(t, env, "demo", "--rows", "2000", "--shards", "4", "--keep", "-o", "json").Wait(t)
	var doc struct {
		Acknowledged, Lost int
		Kept               keptDemo
	}
	if err := json.Unmarshal([]byte(r.Stdout), &doc); err != nil || r.Code != 0 || doc.Lost != 0 {
		t.Fatalf("demo --keep: %s (%v)", r, err)
	}
	k := doc.Kept
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			if out, err := exec.Command("sh", "-c", k.Stop).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v: %s", k.Stop, err, out)
			}
		}
	}
	t.Cleanup(stop)
	k.holdsTheLedger(t)
	for _, args := range [][]string{{"status"}, {"route", k.Key}, {"topology", "show"}, {"rollback", "--yes"}} {
		if r := binary.Begin(t, env, append(args, "-f", k.Spec, "-o", "json")...).Wait(t); r.Code != 0 {
			t.Fatalf("%s on a kept demo: %s", args, r)
		}
	}
	if n := k.count(t, k.Pooler, "SELECT count(*) FROM block"); n == 0 {
		t.Error("after the rollback the pooler shows no row of the source")
	}
	stop()
	nothingLeft(t, folder, 30*time.Second) // the server's processes end after their parent
}

// holdsTheLedger counts rows: the demo itself has compared their contents.
func (k keptDemo) holdsTheLedger(t *testing.T) {
	f, err := os.Open(k.Ledger)
	must(t, err)
	defer f.Close()
	want, deleted := map[string]int{}, 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var row struct {
			Table, ID, Body string
			Deleted         bool
		}
		must(t, json.Unmarshal(lines.Bytes(), &row))
		if row.Deleted {
			deleted++
			continue
		}
		if row.ID == "" || row.Body == "" {
			t.Fatalf("a line of the ledger: %s", lines.Text())
		}
		want[row.Table]++
	}
	must(t, lines.Err())
	if deleted == 0 {
		t.Error("the ledger has no delete")
	}
	for _, table := range []string{"workspace", "block", "comment"} {
		got := 0
		for shard := range 4 {
			got += k.count(t, k.Databases[shard/2], fmt.Sprintf("SELECT count(*) FROM shard_%03d.%s", shard, table))
		}
		if got != want[table] || got == 0 {
			t.Errorf("%d rows of %s, %d in the ledger", got, table, want[table])
		}
	}
}

func (k keptDemo) count(t *testing.T, dsn, sql string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), binary.Patience)
	defer cancel()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // for the pooler
	conn, err := pgx.ConnectConfig(ctx, config)
	must(t, err)
	defer func() { _ = conn.Close(ctx) }()
	must(t, conn.QueryRow(ctx, sql).Scan(&n))
	return n
}
