package journey

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestInitWritesASpecThatPlans: what init writes names servers by variables only, is not
// overwritten by itself, and is a spec that plan finds nothing wrong with.
func TestInitWritesASpecThatPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiny)
	w.load()
	before := w.catalogs()
	file := filepath.Join(t.TempDir(), "proposed.yaml")
	init := func(code int, env []string, args ...string) binary.Result {
		t.Helper()
		r := binary.Begin(t, env, append([]string{"init", "--file", file}, args...)...).Wait(t)
		if r.Code != code {
			t.Fatalf("init %v: want exit %d: %s", args, code, r)
		}
		return r
	}
	dsn := secretDSN(w.source.Port(), operator, "app")
	if r := init(64, w.env); !strings.Contains(r.Stderr, "SHARDCTL_SOURCE") {
		t.Errorf("init without a source: %s", r)
	}
	made, err := init(0, append(slices.Clone(w.env), "SHARDCTL_SOURCE="+dsn), "-o", "json").Document()
	must(t, err)
	hasKeys(t, "init", made, map[string]string{"file": "text", "migration": "text", "key.column": "text", "tables": "list", "left_out": "list", "other_keys": "list", "variables": "list", "next": "text"})
	written, err := os.ReadFile(file)
	must(t, err)
	for _, secret := range []string{password, dsn, operator, "127.0.0.1"} {
		if strings.Contains(string(written), secret) {
			t.Errorf("the spec holds %q:\n%s", secret, written)
		}
	}
	// A password does not belong on a command line, where others' tests look for it.
	if r := init(64, w.env, "--source", w.sourceDSN()); !strings.Contains(r.Stderr, "--force") {
		t.Errorf("init over a file: %s", r)
	}
	must(t, os.WriteFile(file, []byte("edited"), 0o644))
	init(64, w.env, "--source", w.sourceDSN())
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "edited" {
		t.Errorf("init replaced a file: %s %v", kept, err)
	}
	init(0, w.env, "--source", w.sourceDSN(), "--force")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(written) {
		t.Errorf("the same catalog gave another spec: %v\n%s", err, again)
	}
	w.unchanged(t, before, "init")
	plan := binary.Begin(t, w.env, "plan", "--file", file, "-o", "json").Wait(t)
	doc, err := plan.Document()
	must(t, err)
	if plan.Code != 0 || doc["error"] != nil || strings.Contains(text(doc, "findings"), "severity:error") {
		t.Errorf("plan of what init wrote: %s", plan)
	}
}
