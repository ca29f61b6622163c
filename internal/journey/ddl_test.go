package journey

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// underDDL is a migration that is copying, with catchup at work.
func underDDL(t *testing.T, name string) (*trip, *watched) {
	t.Helper()
	const rate = 6_000
	w := newWorld(t, shape{
		migration: name, home: []int{0, 1, 0, 1}, schema: "shard_%03d", storeAs: true,
		blocks: 15_000, writers: 3, pace: 30 * time.Millisecond, extra: slowly(rate),
	})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	j.catchup = w.begin(t, "catchup")
	backfill := w.watch(t, "backfill")
	eventually(t, time.Minute, "the first chunk", func() bool {
		backfill.revive(t)
		return len(w.ledger()) > 0
	})
	return j, backfill
}

// TestRewritesLoseNothing empties and rewrites tables while they are copied and while
// their log is applied. Neither may be taken for deleted rows, nor bring rows back.
func TestRewritesLoseNothing(t *testing.T) {
	t.Parallel()
	j, backfill := underDDL(t, "rewritten")
	w, c := j.w, j.c
	w.exec(w.sourceDSN(), "VACUUM FULL public.block")
	c.acknowledge(t, 5)
	c.rest(func() {
		w.exec(w.sourceDSN(), "TRUNCATE public.comment")
		for _, x := range c.writers {
			x.forgetComments()
		}
	})
	c.acknowledge(t, 5)
	w.exec(w.sourceDSN(), "VACUUM FULL public.comment")
	w.exec(w.sourceDSN(), "CLUSTER public.block USING block_pkey")
	eventually(t, binary.Patience, "backfill to end", func() bool {
		backfill.revive(t)
		return backfill.over
	})
	t.Logf("backfill was begun %d times", backfill.begins)
	j.alive()
	j.verify()
	c.sourceServes(t, true)

	// After the copy the same is left to the log alone.
	w.exec(w.sourceDSN(), "VACUUM FULL public.comment")
	c.rest(func() {
		w.exec(w.sourceDSN(), "TRUNCATE public.block, public.comment")
		for _, x := range c.writers {
			x.forgetComments()
			x.blocks = nil
		}
	})
	c.acknowledge(t, 20)
	w.exec(w.sourceDSN(), "VACUUM FULL public.block")
	j.alive()
	c.sourceServes(t, true)
	c.finish(t)
}

// forgetComments does in the book what TRUNCATE comment does.
func (x *writer) forgetComments() {
	x.comments = nil
	for _, b := range x.blocks {
		b.comments = nil
	}
}

// TestAlteredTypeStopsClearly: when a column's type changes under way the databases' tables
// no longer fit. Commands stop and name the table, nothing claims to be clean, and the
// source serves on; once the change is taken back they go on, and nothing is lost.
func TestAlteredTypeStopsClearly(t *testing.T) {
	t.Parallel()
	j, backfill := underDDL(t, "altered")
	w, c := j.w, j.c
	w.exec(w.sourceDSN(), "ALTER TABLE public.block ALTER COLUMN version TYPE bigint")
	c.acknowledge(t, 10)
	stopped := j.catchup.Wait(t)
	names(t, "catchup", stopped, 4, "public.block")
	// Backfill stops at the table too, or waits for catchup at its end.
	if copied := backfill.Interrupt(t); copied.Code != 130 {
		names(t, "backfill", copied, 4, "public.block")
	}
	for _, args := range [][]string{{"catchup", "--once"}, {"verify"}, {"cutover", "--yes"}} {
		if code, doc := w.run(t, args...); code != 4 && code != 1 {
			t.Errorf("%v after the type changed: exit %d: %v", args, code, doc)
		}
	}
	if problems := text(w.must(t, "status"), "problems"); !strings.Contains(problems, "block") {
		t.Errorf("status does not speak of it: %s", problems)
	}
	c.sourceServes(t, false)

	// The way on: the change is taken back.
	w.exec(w.sourceDSN(), "ALTER TABLE public.block ALTER COLUMN version TYPE int")
	j.catchup = w.begin(t, "catchup")
	w.must(t, "backfill")
	j.verify()
	j.alive()
	c.sourceServes(t, true)
	c.finish(t)
}

// names demands a code and an error that names an object.
func names(t testing.TB, what string, r binary.Result, code int, object string) {
	t.Helper()
	doc, err := r.Document()
	if err != nil || r.Code != code || !strings.Contains(text(doc, "error.object")+text(doc, "error.message"), object) {
		t.Errorf("%s: want exit %d and an error about %s: %s", what, code, object, r)
	}
}
