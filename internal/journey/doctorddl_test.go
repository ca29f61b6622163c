package journey

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestAcknowledgedDDL adds a column twice under load: while rows are copied, and after a
// clean verification. Everything stops clearly, and goes on once the change was applied
// on all sides and acknowledged; what was verified before does not count.
func TestAcknowledgedDDL(t *testing.T) {
	t.Parallel()
	j, backfill := underDDL(t, "acknowledged")
	w, c := j.w, j.c
	stops := func(column string) {
		t.Helper()
		w.exec(w.sourceDSN(), "ALTER TABLE public.block ADD COLUMN "+column+" text DEFAULT 'none'")
		names(t, "catchup", j.catchup.Wait(t), 4, "public.block")
		w.exec(w.sourceDSN(), "UPDATE public.block SET "+column+" = 'early ' || id WHERE id::text < '4'")
		c.acknowledge(t, 5)
	}
	acknowledged := func(also ...string) {
		t.Helper()
		w.refused(t, 64, "doctor", "--acknowledge-ddl")
		names(t, "doctor --acknowledge-ddl", w.begin(t, "doctor", "--acknowledge-ddl", "--yes").Wait(t), 4, "public.block on db0")
		broken := of(w.doctor(t, 4), "columns", "broken")
		if len(broken) != 2 {
			t.Fatalf("columns: %+v", broken)
		}
		for _, f := range broken {
			for i := range w.databases() {
				if strings.HasSuffix(f.object, w.database(i)) {
					w.exec(w.databaseDSN(i), f.fix)
				}
			}
		}
		for _, f := range w.doctor(t, 0, "--acknowledge-ddl", "--yes") {
			if f.state != "ok" && !strings.Contains(strings.Join(also, " "), f.id) {
				t.Errorf("after the change was acknowledged: %+v", f)
			}
		}
	}
	equal := func(column string) {
		t.Helper()
		c.rest(func() {
			digest := "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(id::text || " + column + ", 0)), 0) FROM "
			var places []string
			eventually(t, binary.Patience, "the new column to be equal everywhere", func() bool {
				places = nil
				for i := range w.databases() {
					for at := range w.locations() {
						if at.database == i {
							places = append(places, w.texts(w.databaseDSN(i), "SELECT id::text || "+column+" FROM "+at.schema+".block WHERE "+column+" <> 'none'")...)
						}
					}
				}
				// Either side may be the one that follows.
				want := w.texts(w.sourceDSN(), digest+"public.block WHERE "+column+" <> 'none'")[0]
				return w.texts(w.sourceDSN(), "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(x, 0)), 0) FROM unnest($1::text[]) x", places)[0] == want
			})
			if len(places) < 1000 {
				t.Errorf("only %d rows have something in the new column", len(places))
			}
		})
	}

	w.refused(t, 5, "doctor", "--acknowledge-ddl", "--yes") // catchup reads the log by the old columns
	stops("note")
	if copied := backfill.Interrupt(t); copied.Code != 130 {
		names(t, "backfill", copied, 4, "public.block")
	}
	acknowledged("router")
	j.catchup = w.begin(t, "catchup")
	w.must(t, "backfill")
	w.exec(w.sourceDSN(), "UPDATE public.block SET note = 'late ' || id WHERE id::text > 'd'")
	j.verify()
	j.alive()
	equal("note")
	c.sourceServes(t, true)
	w.well(t, "verify") // also under load

	stops("more")
	acknowledged("verify")
	if state := text(w.must(t, "status"), "verify.state"); state != "stale" {
		t.Errorf("verification of before the change is %s", state)
	}
	j.catchup = w.begin(t, "catchup")
	w.refused4(t, "cutover", "--yes")
	j.verify()
	equal("more")
	c.sourceServes(t, true)
	c.keepShards()
	j.turn("cutover", "cut_over")
	equal("note")
	c.databasesServe(t, true)
	c.finish(t)
}

// refused4 demands that a switch is refused.
func (w *world) refused4(t testing.TB, args ...string) {
	t.Helper()
	if code, doc := w.run(t, args...); code != 4 {
		t.Errorf("%v: exit %d: %v", args, code, doc)
	}
}
