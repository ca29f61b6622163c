package journey

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestLookingAndExtendingMoveNothing: a dry run says as text what it would do, a switch of
// which nothing is left says so, and flags that are no use move neither databases nor the
// rollback window.
func TestLookingAndExtendingMoveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "looking", home: []int{0, 1}, schema: "shard_%03d", blocks: 600, writers: 1, pace: 50 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	c.keepShards()
	w.lists(t, "cutover", "gate: verified", "pause")
	w.mustSwitch(t, "cutover", "--database", "db0")
	w.slips(t)
	if doc := w.must(t, "cutover", "--dry-run", "--database", "db1"); text(doc, "outcome") != "planned" || text(doc, "next") != "shardctl cutover --database db1" {
		t.Errorf("a dry run of one database: %v", doc)
	}
	w.mustSwitch(t, "cutover")
	if said := w.said(t, "cutover", "--dry-run"); said != "nothing to do\n" {
		t.Errorf("a dry run of what was done says\n%s", said)
	}
	w.lists(t, "rollback", "gate: writable", "close")
	before := w.windowEnd()
	w.must(t, "cutover", "--extend", "90m")
	if after := w.windowEnd(); after.Sub(before) != 90*time.Minute {
		t.Errorf("the window was extended from %s to %s", before, after)
	}
	c.finish(t)
}

// said runs a command that succeeds, and gives its text.
func (w *world) said(t testing.TB, args ...string) string {
	t.Helper()
	r := binary.Begin(t, w.env, append(args, "--file", w.spec)...).Wait(t)
	if r.Code != 0 {
		t.Fatalf("%v: %s", args, r)
	}
	return r.Stdout
}

// lists makes a dry run and looks for a gate that is ok and a step that was not run.
func (w *world) lists(t testing.TB, command, gate, step string) {
	t.Helper()
	said := w.said(t, command, "--dry-run")
	lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	has := func(name, outcome string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "  "+name+" ") && strings.Contains(line, outcome)
		})
	}
	last := lines[len(lines)-1]
	if len(lines) < 20 || !has(gate, " ms  ok") || !has(step, "  not run: needs write") ||
		!strings.HasPrefix(last, "dry run of "+command+": ") || !strings.HasSuffix(last, "; next: shardctl "+command) {
		t.Errorf("%s --dry-run says\n%s", command, said)
	}
}

// mustSwitch moves traffic once databases are verified.
func (w *world) mustSwitch(t testing.TB, args ...string) {
	t.Helper()
	w.must(t, "verify")
	if doc := w.must(t, append(args, "--yes")...); text(doc, "outcome") != "done" {
		t.Fatalf("%v: %v", args, doc)
	}
	w.catchupRuns(t)
}

// slips are refused as usage, and leave owners and window as they are.
func (w *world) slips(t testing.TB) {
	t.Helper()
	owners := "SELECT database || ' ' || owner FROM shardctl.ownership ORDER BY 1"
	before, window := w.texts(w.sourceDSN(), owners), w.windowEnd()
	for _, args := range []string{
		"cutover --yes --extend=-1h", "cutover --yes --extend 0", "cutover --yes --extend 9000h", "cutover --yes --extend 4h --dry-run",
		"cutover --yes --extend 4h --database db1", "cutover --yes --max-pause=-1s", "cutover --yes --max-pause 999us", "cutover --yes --max-pause 2h",
		"cutover --yes --database=", "rollback --yes --database=", "rollback --yes --max-pause 0",
	} {
		failure := w.refused(t, 64, strings.Fields(args)...)
		if !strings.HasPrefix(text(failure, "object"), "--") {
			t.Errorf("%s: %v", args, failure)
		}
	}
	if after := w.texts(w.sourceDSN(), owners); !slices.Equal(before, after) || !w.windowEnd().Equal(window) {
		t.Errorf("owners were %v, are %v; the window ended at %s, ends at %s", before, after, window, w.windowEnd())
	}
}

// windowEnd is the end of the rollback window.
func (w *world) windowEnd() time.Time {
	w.t.Helper()
	end, err := time.Parse(time.RFC3339Nano, w.texts(w.sourceDSN(), "SELECT to_char(window_ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM shardctl.migration")[0])
	must(w.t, err)
	return end
}
