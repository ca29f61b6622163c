package journey

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAbortLeavesNothing aborts after each phase, under load, and begins anew each time: no
// side has anything of shardctl's afterwards.
func TestAbortLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "aborted", home: []int{0, 1, 1}, schema: "shard_%03d", storeAs: true, blocks: 3_000, writers: 3, pace: 30 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	c.keepShards()
	for _, until := range []string{"prepared", "installed", "backfilled", "rolled back"} {
		w.must(t, "prepare")
		w.must(t, "topology", "push", "--yes")
		if until != "prepared" {
			w.must(t, "install")
		}
		if until == "backfilled" || until == "rolled back" {
			j.catchup = w.begin(t, "catchup")
			w.must(t, "backfill")
			j.verify()
		}
		if until == "rolled back" {
			j.turn("cutover", "cut_over")
			w.refused(t, 4, "abort", "--yes")
			j.turn("rollback", "rolled_back")
		}
		j.abort(until)
	}
	c.finish(t)
}

// abort removes everything, once catchup has ended.
func (j *trip) abort(phase string) {
	t, w := j.t, j.w
	if j.catchup != nil {
		w.catchupRuns(t)
		w.refused(t, 5, "abort", "--yes")
		j.end()
		j.catchup = nil
	}
	j.abortHalf()
	w.must(t, "abort", "--yes")
	w.unchanged(t, j.before, "a migration that was aborted when it was "+phase)
	w.must(t, "abort", "--yes")
	doc := w.must(t, "status")
	w.statusHasKeys(t, doc)
	if phase := text(doc, "phase"); phase != "aborted" && phase != "new" {
		t.Errorf("after abort the phase is %s", phase)
	}
	entries, err := os.ReadFile(w.bouncer.DatabasesFile)
	must(t, err)
	if strings.Contains(string(entries), "shardctl") {
		t.Errorf("the pooler's file still speaks of shardctl:\n%s", entries)
	}
	j.c.healthy(t)
	j.c.sourceServes(t, false)
}

// abortHalf begins to remove, and stops at a view that somebody made on the last
// database: running the command again must find its way from there.
func (j *trip) abortHalf() {
	t, w := j.t, j.w
	last := w.databases() - 1
	shard := slices.Index(w.home, last)
	w.exec(w.databaseDSN(last), fmt.Sprintf("CREATE VIEW public.mine AS SELECT id FROM %s.block", w.schemaOf(shard)))
	w.refused(t, 4, "abort", "--yes")
	if left := w.texts(w.databaseDSN(0), "SELECT nspname::text FROM pg_namespace WHERE nspname = 'shardctl'"); len(left) > 0 {
		t.Error("the first database still has its state: nothing was half done")
	}
	w.refused(t, 4, "abort", "--yes")
	w.exec(w.databaseDSN(last), "DROP VIEW public.mine")
}
