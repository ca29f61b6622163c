package journey

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

//go:embed testdata/router-hook
var routerHook []byte

// hookFolder makes a hook and the folder of its state.
func hookFolder(t *testing.T) (program, folder string) {
	t.Helper()
	folder = t.TempDir()
	program = filepath.Join(folder, "router-hook")
	must(t, os.WriteFile(program, routerHook, 0o755))
	return program, folder
}

// TestTableAndHookAreSwitched drives all four drivers at once: forward, back, and by a
// watchdog whose command was killed before and after the commit.
func TestTableAndHookAreSwitched(t *testing.T) {
	t.Parallel()
	program, folder := hookFolder(t)
	extra := fmt.Sprintf("  - {driver: postgres, dsn: \"${SOURCE_DSN}\"}\n  - {driver: exec, command: [%q, %q]}\n", program, folder)
	w := newWorld(t, shape{migration: "drivers", home: []int{0, 1, 0}, schema: "shard_%03d", storeAs: true, blocks: 300, writers: 1, extra: extra})
	w.load()
	if plan := w.must(t, "plan"); strings.Contains(fmt.Sprint(plan["findings"]), "router.") {
		t.Errorf("plan finds fault with the routers: %v", plan["findings"])
	}
	w.copied(t)
	at := func(epoch string, owner string) {
		t.Helper()
		row := w.texts(w.sourceDSN(), "SELECT epoch || ' ' || (document->'shards'->0->>'database') FROM shardctl_topology.topology WHERE migration = 'drivers'")
		told, err := os.ReadFile(filepath.Join(folder, "epoch"))
		if _, held := os.Stat(filepath.Join(folder, "held")); strings.Join(row, ",") != epoch+" "+owner || err != nil || strings.TrimSpace(string(told)) != epoch || held == nil {
			t.Errorf("the table holds %v, the hook epoch %s (%v), held: %t; want epoch %s, %s, released", row, told, err, held == nil, epoch, owner)
		}
	}
	at("1", "source")
	catchup := w.begin(t, "catchup")
	w.catchupRuns(t)
	w.must(t, "cutover", "--yes")
	at("2", "db0")
	w.catchupRuns(t)
	w.must(t, "rollback", "--yes")
	at("3", "source")
	w.catchupRuns(t)
	w.must(t, "verify")
	for _, c := range []struct{ step, epoch, owner string }{{"pause", "3", "source"}, {"commit", "4", "db0"}} {
		w.killedAfter(t, c.step)
		eventually(t, binary.Patience, "the watchdog to release the hook", func() bool {
			_, err := os.Stat(filepath.Join(folder, "held"))
			return os.IsNotExist(err)
		})
		if c.step == "pause" {
			w.catchupRuns(t)
			w.must(t, "verify")
		}
		eventually(t, binary.Patience, "epoch "+c.epoch, func() bool {
			told, _ := os.ReadFile(filepath.Join(folder, "epoch"))
			return strings.TrimSpace(string(told)) == c.epoch
		})
		at(c.epoch, c.owner)
	}
	w.must(t, "cutover", "--yes")
	if catchup.Ended() {
		t.Errorf("catchup ended: %s", catchup.Wait(t))
	}
	w.noSecrets(t)
}

// killedAfter begins a cutover and kills it after a step of its window. One whose time is
// up before, on a busy machine, has left everything where it was: it is begun again.
func (w *world) killedAfter(t *testing.T, step string) {
	t.Helper()
	var c *binary.Command
	for range 5 {
		c = w.begin(t, "cutover", "--yes", "--log-format", "json", "--log-level", "info")
		if c.Logs(`"step":"` + step + `"`) {
			break
		}
		if r := c.Wait(t); r.Code != 7 {
			t.Fatalf("it ended before its step %q: %s", step, r)
		}
	}
	c.Kill()
	if strings.Contains(c.Stderr(), `"step":"resume"`) {
		t.Errorf("it was killed too late to need its watchdog")
	}
}

// TestPlanShowsRoutersThatCannotBeDriven: each driver's finding has what mends it.
func TestPlanShowsRoutersThatCannotBeDriven(t *testing.T) {
	t.Parallel()
	program, folder := hookFolder(t)
	must(t, os.Chmod(program, 0o644))
	extra := fmt.Sprintf("  - {driver: postgres, dsn: \"postgres://nobody:%s@127.0.0.1:1/routing\"}\n  - {driver: exec, command: [%q, %q]}\n  - {driver: exec, command: %q}\n",
		password, program, folder, program+"-missing")
	w := newWorld(t, shape{migration: "unfit", home: []int{0, 1}, schema: "shard_%03d", blocks: 30, writers: 1, extra: extra})
	w.load()
	code, doc := w.run(t, "plan")
	var found []string
	findings, _ := doc["findings"].([]any)
	for _, item := range findings {
		f, _ := item.(map[string]any)
		if id, _ := f["id"].(string); strings.HasPrefix(id, "router.") {
			found = append(found, id)
			if fix, _ := f["fix"].(string); fix == "" || f["severity"] != "error" {
				t.Errorf("finding: %v", f)
			}
		}
	}
	if code != 4 || strings.Join(found, " ") != "router.unreachable router.hook_not_executable router.hook_missing" {
		t.Errorf("exit %d: %v", code, found)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.commands {
		if strings.Contains(c.Stdout()+c.Stderr(), password) {
			t.Errorf("%s shows the password", c)
		}
	}
}
