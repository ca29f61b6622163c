package journey

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

// begin starts a command with the world's spec, in JSON. What it prints is kept.
func (w *world) begin(t testing.TB, args ...string) *binary.Command {
	t.Helper()
	c := binary.Begin(t, w.env, slices.Concat(args, []string{"--file", w.spec, "--output", "json", "--no-progress"})...)
	t.Cleanup(c.Kill)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, c)
	return c
}

// run runs a command to its end and gives its document.
func (w *world) run(t testing.TB, args ...string) (int, binary.Document) {
	t.Helper()
	c := w.begin(t, args...)
	r := c.Wait(t)
	doc, err := r.Document()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, r)
	}
	return r.Code, doc
}

// must runs a command that has to succeed.
func (w *world) must(t testing.TB, args ...string) binary.Document {
	t.Helper()
	code, doc := w.run(t, args...)
	if code != 0 {
		t.Fatalf("shardctl %v: exit %d: %v", args, code, doc)
	}
	return doc
}

// refused runs a command that has to end with a code, and gives its error.
func (w *world) refused(t testing.TB, code int, args ...string) binary.Document {
	t.Helper()
	got, doc := w.run(t, args...)
	failure, _ := doc["error"].(map[string]any)
	if got != code || failure == nil {
		t.Fatalf("shardctl %v: exit %d and %v, want exit %d and an error", args, got, doc, code)
	}
	return failure
}

// catchupRuns waits until catch-up has its lease: after a switch it takes it back in its
// own time.
func (w *world) catchupRuns(t testing.TB) {
	t.Helper()
	eventually(t, binary.Patience, "catch-up to go on", func() bool { return text(w.must(t, "status"), "capture.running") == "true" })
}
