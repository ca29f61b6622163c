package journey

import (
	"strings"
	"testing"
)

// TestStatusNamesAGap: where a log does not reach back to a database, status says so and
// claims no lag, as catchup stops and doctor finds it. On the way back the gap ends the
// possibility of a rollback, and nothing else.
func TestStatusNamesAGap(t *testing.T) {
	t.Parallel()
	w := quiet(t, "gapped")
	w.copied(t)
	w.exec(w.sourceDSN(), "UPDATE public.block SET version = 2") // positions speak of a marker from here on
	w.must(t, "catchup", "--once")
	w.must(t, "verify")
	forget := func(dsn string) {
		w.exec(dsn, "CREATE TABLE public.kept AS SELECT * FROM shardctl.marker; DELETE FROM shardctl.marker")
	}
	recall := func(dsn string) {
		w.exec(dsn, "INSERT INTO shardctl.marker SELECT * FROM public.kept; DROP TABLE public.kept")
	}
	gapped := func(want bool, lag string) {
		t.Helper()
		doc := w.must(t, "status")
		if got := strings.Contains(text(doc, "problems"), "gap: "); got != want {
			t.Errorf("a gap is among the problems: %v, want %v: %v", got, want, doc)
		}
		if got := text(doc, lag); (got == "<nil>") != want {
			t.Errorf("%s is %s beside a gap: %v", lag, got, want)
		}
	}
	// The copy is whole. It is not done while it cannot be brought up to date.
	copies := func(code int, part string) {
		t.Helper()
		if got, doc := w.run(t, "backfill"); got != code || !strings.Contains(said(doc)+text(doc, "outcome"), part) {
			t.Errorf("backfill: exit %d, want %d and %q: %v", got, code, part, doc)
		}
	}
	gapped(false, "capture.lag_seconds")
	forget(w.sourceDSN())
	gapped(true, "capture.lag_seconds")
	copies(4, "run shardctl prepare --database db0")
	if next := text(w.must(t, "status"), "next"); next != "shardctl prepare --database db0,db1" {
		t.Errorf("next is %s", next)
	}
	recall(w.sourceDSN())
	copies(0, "nothing to do")
	const declare = "INSERT INTO shardctl.gap (migration, database, direction, reason) SELECT 'gapped', 'db' || i, $, 'for the test' FROM generate_series(0, 1) i"
	w.exec(w.sourceDSN(), strings.ReplaceAll(declare, "$", "'forward'"))
	gapped(true, "capture.lag_seconds")
	w.exec(w.sourceDSN(), "DELETE FROM shardctl.gap")

	w.must(t, "cutover", "--yes")
	gapped(false, "rollback.lag_seconds")
	for i := range w.databases() {
		w.exec(w.databaseDSN(i), strings.ReplaceAll(declare, "$", "'reverse'"))
	}
	gapped(true, "rollback.lag_seconds")
	if got := text(w.must(t, "status"), "rollback.available"); got != "false" {
		t.Errorf("with a gap of the reverse log a rollback is said to be available: %s", got)
	}
	for i := range w.databases() {
		w.exec(w.databaseDSN(i), "DELETE FROM shardctl.gap")
	}
	if got := text(w.must(t, "status"), "rollback.available"); got != "true" {
		t.Errorf("without a gap rollback.available is %s", got)
	}
}
