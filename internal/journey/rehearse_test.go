package journey

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRehearse runs a spec's whole journey on throw-away servers: the real ones are left
// as they are, the password is on no command line, and nothing stays on this machine.
func TestRehearse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "rehearsed", home: []int{0, 1, 2, 1}, schema: "shard_%03d", always: true, storeAs: true, blocks: 3_000, writers: 1, extra: "throttle: {max_rate: 10}\n"})
	w.load()
	before := w.catalogs()
	seen := watchProcesses(t)
	entries, err := os.ReadFile(w.bouncer.DatabasesFile)
	must(t, err)
	doc := w.must(t, "rehearse", "--rows", "800")
	hasKeys(t, "rehearse", doc, map[string]string{"rows": "number", "findings": "list", "phases": "list", "pauses_ms": "list"})
	eachHas(t, "rehearse", doc, "phases", map[string]string{"phase": "text", "seconds": "number", "outcome": "text"})
	var phases []string
	list, _ := doc["phases"].([]any)
	for _, p := range list {
		phase, _ := p.(map[string]any)
		phases = append(phases, text(phase, "phase"))
		if text(phase, "outcome") != "ok" {
			t.Errorf("a phase: %v", phase)
		}
	}
	want := []string{"plan", "prepare", "topology", "install", "backfill", "verify", "cutover", "rollback", "verify", "cutover"}
	pauses, _ := doc["pauses_ms"].([]any)
	rows, _ := doc["rows"].(float64)
	if !slices.Equal(phases, want) || len(pauses) != 3 || rows < 900 || rows > 1800 {
		t.Errorf("rehearse: %v", doc)
	}
	w.unchanged(t, before, "rehearse")
	if now, err := os.ReadFile(w.bouncer.DatabasesFile); err != nil || string(now) != string(entries) {
		t.Errorf("the real pooler's file was changed: %v\n%s", err, now)
	}
	if _, err := os.Stat(w.topologyFile()); err == nil {
		t.Error("the real topology file was written")
	}
	if where, looks := seen(); len(where) > 0 || looks == 0 {
		t.Errorf("the password stood in command lines (%d looks): %v", looks, where)
	}
	w.status(t, "new")

	// What plan would refuse on the real servers, it refuses here.
	w.exec(w.sourceDSN(), "DROP INDEX public.comment_block")
	code, refused := w.run(t, "rehearse")
	if findings := text(refused, "findings"); code != 4 || !strings.Contains(findings, "via.no_index") {
		t.Errorf("rehearse of a spec that plan refuses: exit %d: %v", code, refused)
	}
	w.exec(w.sourceDSN(), "CREATE INDEX comment_block ON public.comment (block_id)")

	// Stopped, it leaves nothing; once a migration has begun, it refuses.
	stopped := w.begin(t, "rehearse")
	eventually(t, time.Minute, "servers to be started", func() bool { return strings.Contains(stopped.Stderr(), "taking the schema") || stopped.Ended() })
	if r := stopped.Interrupt(t); r.Code != 130 {
		t.Errorf("rehearse that was interrupted: %s", r)
	}
	w.must(t, "prepare")
	w.must(t, "install")
	w.refused(t, 4, "rehearse")
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "shardctl-local-*", "shardctl.yaml")); err != nil || len(left) > 0 {
		for _, path := range left {
			if spec, err := os.ReadFile(path); err == nil && strings.Contains(string(spec), `"rehearsed"`) {
				t.Errorf("the rehearsal left %s", path)
			}
		}
	}
}
