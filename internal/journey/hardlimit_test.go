package journey

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestTheHardLimit: under live writes the log reaches its hard limit. Capture stops, the
// databases are started anew and copied again, and the cutover loses nothing.
func TestTheHardLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "full", home: []int{0, 1, 0, 1}, schema: "shard_%03d", storeAs: true, blocks: 3_000, writers: 3, pace: 40 * time.Millisecond,
		extra: "capture: {log_soft_limit: 6MB, log_hard_limit: 6MB}\n"})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	w.wellStaysWell(t, j.catchup)

	for !j.catchup.Ended() {
		w.exec(w.sourceDSN(), touch)
	}
	if r := j.catchup.Wait(t); r.Code != 4 || !strings.Contains(r.String(), "shardctl prepare --database db") {
		t.Fatalf("catchup at the hard limit: %s", r)
	}
	c.acknowledge(t, 10) // recorded by nobody
	if doc := w.status(t, "backfilled"); text(doc, "next") != "shardctl prepare --database db0,db1" {
		t.Errorf("next is said to be %s", text(doc, "next"))
	}
	w.refused(t, 4, "catchup")
	w.notYet(t, "prepare --database db0")
	w.refused(t, 64, "prepare", "--database", "db0")
	w.refused(t, 64, "prepare", "--yes", "--database", "db0,db7")

	w.anew(t, "db0", "shardctl prepare --database db1")
	w.refused(t, 4, "catchup")
	w.anew(t, "db1", "shardctl backfill")
	w.notYet(t, "verify")
	j.catchup = w.begin(t, "catchup")
	if doc := w.must(t, "backfill", "--database", "db1"); text(doc, "next") != "shardctl backfill" {
		t.Errorf("with a database left to copy: %v", doc)
	}
	if doc := w.status(t, "backfilled"); text(doc, "next") != "shardctl backfill" {
		t.Errorf("next is said to be %s", text(doc, "next"))
	}
	if doc := w.must(t, "backfill"); text(doc, "next") != "shardctl verify" {
		t.Errorf("with all copied: %v", doc)
	}
	w.notYet(t, "verify") // the pass of before is void
	j.verify()
	c.keepShards()
	j.turn("cutover", "cut_over")
	c.databasesServe(t, false)
	w.refused(t, 4, "prepare", "--yes", "--database", "db0") // it owns its shards
	c.finish(t)
	w.noSecrets(t)
}

// wellStaysWell: without a gap nothing is started anew, nor while a catchup may go on from
// what it remembers.
func (w *world) wellStaysWell(t testing.TB, catchup *binary.Command) {
	t.Helper()
	if doc := w.must(t, "prepare", "--database", "db1"); text(doc, "outcome") != "nothing to do" {
		t.Errorf("without a gap: %v", doc)
	}
	catchup.Signal(t, syscall.SIGSTOP)
	w.exec(w.sourceDSN(), "INSERT INTO shardctl.gap VALUES ('full', 'db1', 'forward', 'for the test')")
	if doc := w.refused(t, 5, "prepare", "--yes", "--database", "db1"); !strings.Contains(text(doc, "message"), "still runs") {
		t.Errorf("beside a catchup: %v", doc)
	}
	w.exec(w.sourceDSN(), "DELETE FROM shardctl.gap")
	catchup.Signal(t, syscall.SIGCONT)
}

// anew starts a database anew.
func (w *world) anew(t testing.TB, name, next string) {
	t.Helper()
	doc := w.must(t, "prepare", "--yes", "--database", name)
	if text(doc, "outcome") != "done" || text(doc, "phase") != "backfilled" || list(doc["databases"]) != name || text(doc, "next") != next {
		t.Errorf("%s started anew: %v", name, doc)
	}
	if doc := w.must(t, "prepare", "--yes", "--database", name); text(doc, "outcome") != "nothing to do" {
		t.Errorf("%s again: %v", name, doc)
	}
	if doc := w.must(t, "status"); text(doc, "next") != next {
		t.Errorf("after %s was started anew next is said to be %s", name, text(doc, "next"))
	}
}

// notYet demands that a cutover is refused, and says what to run.
func (w *world) notYet(t testing.TB, run string) {
	t.Helper()
	code, doc := w.run(t, "cutover", "--yes")
	if code != 4 || text(doc, "outcome") != "refused" || !strings.Contains(text(doc, "reason"), "run shardctl "+run) {
		t.Errorf("cutover: exit %d: %v", code, doc)
	}
}
