package journey

import (
	"testing"
	"time"
)

// TestDropSource removes the moved rows from the source: refused, with nothing changed,
// while another table refers to them; with the end of the rollback window, or later,
// beside a catchup that goes on for the everywhere table. The databases keep every row.
func TestDropSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		later bool
	}{{"at once", false}, {"later", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shape{migration: "dropped", home: []int{0, 1, 0}, schema: "shard_%03d", blocks: 1_500, writers: 3, pace: 30 * time.Millisecond})
			crowd := w.startCrowd(t)
			j := &trip{t: t, w: w, c: crowd, before: w.catalogs()}
			j.start()
			j.copyRows()
			crowd.keepShards()
			w.refused(t, 4, "complete", "--drop-source", "--yes")
			j.cutover()
			j.dropRefused()
			j.end()
			if c.later {
				w.must(t, "complete", "--yes")
				j.catchup = w.begin(t, "catchup")
				j.dropRefused()
			}
			w.must(t, "complete", "--drop-source", "--yes")
			if !c.later {
				j.catchup = w.begin(t, "catchup")
			}
			j.dropped()
			j.again("complete", "--drop-source", "--yes")
			crowd.acknowledge(t, 20)
			crowd.databasesServe(t, false)
			j.end()
			crowd.finish(t)
		})
	}
}

// dropRefused: the refusal names the foreign key, and everything stays as it is.
func (j *trip) dropRefused() {
	t, w := j.t, j.w
	w.exec(w.sourceDSN(), "CREATE TABLE outside (block_id uuid REFERENCES block)")
	before, phase := w.catalogs(), text(w.must(t, "status"), "phase")
	failure := w.refused(t, 4, "complete", "--drop-source", "--yes")
	if failure["code"] != "drop.foreign_key" || failure["object"] != "public.block" {
		t.Errorf("the refusal does not name the foreign key: %v", failure)
	}
	w.unchanged(t, before, "a refused complete --drop-source")
	w.status(t, phase)
	w.exec(w.sourceDSN(), "DROP TABLE outside")
}

// dropped: the source has no row of the sharded tables, still refuses them, and has its
// everywhere table.
func (j *trip) dropped() {
	t, w := j.t, j.w
	doc := w.status(t, "completed")
	if at := text(doc, "cutover.source_dropped_at"); at == "" || at == "<nil>" {
		t.Errorf("status does not say that the rows were removed: %v", doc)
	}
	for table, want := range map[string]bool{"block": false, "comment": false, "plan": true} {
		if got := w.texts(w.sourceDSN(), "SELECT EXISTS (SELECT FROM "+table+")::text")[0]; (got == "true") != want {
			t.Errorf("the source has rows of %s: %s", table, got)
		}
	}
	j.forbidden()
}
