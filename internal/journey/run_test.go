package journey

import (
	"fmt"
	"testing"
	"time"
)

// TestRunAndRepair lets one command go through all phases, and repairs rows that were
// damaged on the way: verify finds them, hands them to the log, and is clean only when
// they have been read again.
func TestRunAndRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "ran", home: []int{0, 1, 0}, schema: "shard_%03d", storeAs: true, blocks: 6_000, writers: 3, pace: 30 * time.Millisecond})
	c := w.startCrowd(t)
	w.must(t, "run", "--until", "prepare", "--yes")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "run", "--until", "verify", "--yes")
	w.status(t, "backfilled")
	// Several rows each: what a writer happens to write meanwhile is mended by catchup.
	for _, damage := range []string{
		"DELETE FROM shard_000.block WHERE id IN (SELECT id FROM shard_000.block WHERE version = 1 ORDER BY id LIMIT 9)",
		"UPDATE shard_002.comment SET workspace_id = gen_random_uuid() WHERE id IN (SELECT id FROM shard_002.comment ORDER BY id LIMIT 9)",
		"INSERT INTO shard_002.block (id, workspace_id, doc) SELECT gen_random_uuid(), workspace_id, doc FROM shard_000.block LIMIT 9",
	} {
		w.exec(w.databaseDSN(0), fmt.Sprintf("SET session_replication_role = replica; SET shardctl.applier = '%s'; %s", w.migration, damage))
	}
	j := &trip{t: t, w: w, c: c, catchup: w.begin(t, "catchup")}
	w.differs(t, 3, "verify")
	code, report := w.run(t, "cutover", "--yes")
	hasKeys(t, "a refused cutover", report, map[string]string{"outcome": "text", "reason": "text", "next": "text", "steps": "list"})
	if code != 4 || text(report, "outcome") != "refused" {
		t.Errorf("cutover with differences: exit %d: %v", code, report)
	}
	w.differs(t, 3, "verify", "--repair", "--yes")
	j.verify()
	if sample := w.must(t, "verify", "--mode", "sample"); text(sample, "mode") != "sample" {
		t.Errorf("verify --mode sample: %v", sample)
	}
	c.keepShards()
	w.must(t, "run", "--yes")
	w.status(t, "cut_over")
	c.acknowledge(t, 10)
	c.databasesServe(t, true)
	j.end()
	w.must(t, "catchup", "--once")
	c.finish(t)
}

// differs demands that verify lists each kind of damage.
func (w *world) differs(t testing.TB, code int, args ...string) {
	t.Helper()
	got, doc := w.run(t, args...)
	found := map[string]int{}
	list, _ := doc["differences"].([]any)
	for _, d := range list {
		difference, _ := d.(map[string]any)
		found[text(difference, "kind")]++
	}
	if got != code || text(doc, "state") != "differences" || found["missing"] < 1 || found["different"] < 1 || found["extra"]+found["wrong_location"] < 1 {
		t.Fatalf("%v: exit %d, found %v: %v", args, got, found, doc)
	}
}
