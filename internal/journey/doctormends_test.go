package journey

import (
	"strings"
	"testing"
)

// damage is something that is not as it must be, and how it is set right again.
type damage struct {
	name     string
	where    int // -1: the source
	do, undo string
	broken   string   // the check that finds it
	state    string   // "" is broken
	mend     []string // the command that sets it right
	stays    bool     // --repair does not mend it
	more     bool     // and others are broken then
}

var damages = []damage{
	{name: "a closed fence that fell", do: "ALTER TABLE shard_000.block DISABLE TRIGGER shardctl_ill_closed", broken: "fence.database", mend: []string{"doctor", "--repair", "--yes"}},
	{name: "a closed fence of an everywhere table", where: 1, do: "ALTER TABLE public.plan DISABLE TRIGGER shardctl_ill_closed", broken: "fence.everywhere", mend: []string{"doctor", "--repair", "--yes"}},
	{name: "capture switched off", where: -1, do: "ALTER TABLE public.block DISABLE TRIGGER shardctl_ill_capture", broken: "capture", mend: []string{"doctor", "--acknowledge-ddl", "--yes"}, more: true},
	{name: "a reverse capture trigger that was dropped", where: 1, do: "DROP TRIGGER shardctl_ill_capture ON shard_001.comment", broken: "capture", mend: []string{"doctor", "--acknowledge-ddl", "--yes"}, more: true},
	{name: "a capture function of somebody else", where: -1, do: "CREATE OR REPLACE FUNCTION shardctl.ill_capture_1() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN NEW; END'", broken: "capture", mend: []string{"doctor", "--acknowledge-ddl", "--yes"}},
	{name: "capture stopped", where: -1, do: "CREATE OR REPLACE FUNCTION shardctl.ill_capture_1() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS E'\\nBEGIN\\n  RETURN NULL;\\nEND\\n'", broken: "capture.stopped", mend: []string{"doctor", "--repair", "--yes"}},
	{name: "capture stopped, and a gap that forbids to go on", where: -1, do: "CREATE OR REPLACE FUNCTION shardctl.ill_capture_2() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS E'\\nBEGIN\\n  RETURN NULL;\\nEND\\n'; INSERT INTO shardctl.gap (migration, database, direction, reason) VALUES ('ill', 'db1', 'forward', 'for the test')",
		undo: "DELETE FROM shardctl.gap", broken: "capture.stopped", mend: []string{"doctor", "--repair", "--yes"}, stays: true, more: true},
	{name: "a dormant fence that is gone", where: -1, do: "DROP TRIGGER shardctl_ill_fence_2 ON public.comment", broken: "fence.source", mend: []string{"doctor", "--acknowledge-ddl", "--yes"}, more: true},
	{name: "a fence that stands too early", where: -1, do: "ALTER TABLE public.block ENABLE ALWAYS TRIGGER shardctl_ill_fence_1, ENABLE ALWAYS TRIGGER shardctl_ill_fence_truncate_1; ALTER TABLE public.comment ENABLE ALWAYS TRIGGER shardctl_ill_fence_1, ENABLE ALWAYS TRIGGER shardctl_ill_fence_truncate_1",
		undo:   "ALTER TABLE public.block DISABLE TRIGGER shardctl_ill_fence_1, DISABLE TRIGGER shardctl_ill_fence_truncate_1; ALTER TABLE public.comment DISABLE TRIGGER shardctl_ill_fence_1, DISABLE TRIGGER shardctl_ill_fence_truncate_1",
		broken: "fence.source"},
	{name: "a lost ledger", where: 1, do: "CREATE TABLE public.kept AS SELECT * FROM shardctl.ledger; DELETE FROM shardctl.ledger", undo: "INSERT INTO shardctl.ledger SELECT * FROM public.kept; DROP TABLE public.kept", broken: "ledger"},
	{name: "a marker that is gone", where: -1, do: "CREATE TABLE public.kept AS SELECT * FROM shardctl.marker; DELETE FROM shardctl.marker", undo: "INSERT INTO shardctl.marker SELECT * FROM public.kept; DROP TABLE public.kept", broken: "position"},
	{name: "a gap", where: -1, do: "INSERT INTO shardctl.gap (migration, database, direction, reason) VALUES ('ill', 'db0', 'forward', 'for the test')", undo: "DELETE FROM shardctl.gap", broken: "gap"},
	{name: "a column that only a database has", do: "ALTER TABLE shard_002.block ADD COLUMN extra int", undo: "ALTER TABLE shard_002.block DROP COLUMN extra", broken: "columns", more: true},
	{name: "an object that nobody registered", where: -1, do: "CREATE FUNCTION shardctl.ill_capture_77() RETURNS int LANGUAGE sql AS 'SELECT 1'", undo: "DROP FUNCTION shardctl.ill_capture_77()", broken: "registry.leftover", state: "warning"},
	{name: "a registered object that is gone", do: "ALTER TABLE shardctl.ill_tomb_1 RENAME TO gone", undo: "ALTER TABLE shardctl.gone RENAME TO ill_tomb_1", broken: "registry"},
	{name: "a database that says another epoch", do: "UPDATE shardctl.control SET epoch = 0", undo: "UPDATE shardctl.control SET epoch = 1", broken: "owner"},
	{name: "a database that has seen a later term", do: "UPDATE shardctl.control SET term = term + 1000", undo: "UPDATE shardctl.control SET term = term - 1000", broken: "owner"},
	{name: "other shards", do: "UPDATE shardctl.control SET shards = '{1}'", undo: "UPDATE shardctl.control SET shards = '{0,2}'", broken: "owner"},
	{name: "a phase that does not fit", where: -1, do: "UPDATE shardctl.migration SET phase = 'cut_over'", undo: "UPDATE shardctl.migration SET phase = 'backfilled'", broken: "phase", more: true},
}

// TestDoctorFindsAndMends breaks one invariant after the other: the check says so, with
// exit 4, and is well again after the way that it names.
func TestDoctorFindsAndMends(t *testing.T) {
	t.Parallel()
	w := quiet(t, "ill")
	w.copied(t)
	w.exec(w.sourceDSN(), "UPDATE public.block SET version = 2") // positions speak of a marker from here on
	w.must(t, "catchup", "--once")
	w.must(t, "verify")
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) { w.suffer(t, d) })
	}
	journal := w.texts(w.sourceDSN(), "SELECT command || ' ' || step || ' ' || outcome FROM shardctl.journal WHERE command LIKE 'doctor%' ORDER BY at")
	for _, line := range []string{"doctor --repair fence.database started", "doctor --repair fence.database ok", "doctor --acknowledge-ddl doctor --acknowledge-ddl ok"} {
		if !strings.Contains(strings.Join(journal, "\n"), line) {
			t.Errorf("the journal has no %q: %v", line, journal)
		}
	}
	t.Run("an agreed loss", func(t *testing.T) { w.agreedLoss(t) })
	t.Run("after a cutover", func(t *testing.T) { w.sufferOpen(t) })
}

func (w *world) suffer(t *testing.T, d damage) {
	dsn := w.sourceDSN()
	if d.where >= 0 {
		dsn = w.databaseDSN(d.where)
	}
	w.exec(dsn, d.do)
	code, state := 4, "broken"
	if d.state != "" {
		code, state = 0, d.state
	}
	found := w.doctor(t, code)
	if len(of(found, d.broken, state)) == 0 {
		t.Errorf("%s is not %s: %+v", d.broken, state, found)
	}
	for _, f := range found {
		if !d.more && f.state == "broken" && f.id != d.broken && !strings.HasPrefix(f.id, "capture") && f.id != "ddl" {
			t.Errorf("%s is broken too: %+v", f.id, f)
		}
	}
	if d.stays {
		if len(of(w.doctor(t, 4, d.mend[1:]...), d.broken, state)) == 0 {
			t.Errorf("%s was mended", d.broken)
		}
	}
	if d.undo != "" {
		w.exec(dsn, d.undo)
	}
	if d.mend != nil {
		w.must(t, d.mend...)
		if state := text(w.must(t, "status"), "verify.state"); state != "stale" {
			t.Errorf("after writes may have been missed, verification is %s", state)
		}
		w.must(t, "catchup", "--once")
		w.must(t, "verify")
	}
	w.well(t)
}

// agreedLoss: a key in quarantine is listed, and leaves it when an operator gives it up.
func (w *world) agreedLoss(t *testing.T) {
	w.exec(w.databaseDSN(0), "ALTER TABLE shard_000.block ADD CONSTRAINT only_here CHECK (version < 1000)")
	ids := w.texts(w.databaseDSN(0), "SELECT id::text FROM shard_000.block ORDER BY id LIMIT 1")
	w.exec(w.sourceDSN(), "UPDATE public.block SET version = 1000 WHERE id = '"+ids[0]+"'")
	w.must(t, "catchup", "--once")
	kept := of(w.doctor(t, 4), "quarantine", "broken")
	if len(kept) != 1 || !strings.Contains(kept[0].object, ids[0]) || !strings.Contains(kept[0].evidence, "only_here") {
		t.Fatalf("quarantine: %+v", kept)
	}
	w.refused(t, 64, "doctor", "--repair", "--yes", "--agree", "public.block:nobody")
	w.must(t, "doctor", "--repair", "--yes", "--agree", "public.block:"+ids[0])
	w.exec(w.databaseDSN(0), "ALTER TABLE shard_000.block DROP CONSTRAINT only_here")
	w.exec(w.sourceDSN(), "UPDATE public.block SET version = 5 WHERE id = '"+ids[0]+"'")
	w.must(t, "catchup", "--once")
	w.must(t, "verify")
	w.well(t)
}

// sufferOpen is what may break once the databases own their shards.
func (w *world) sufferOpen(t *testing.T) {
	w.must(t, "cutover", "--yes")
	for _, d := range []damage{
		{name: "guards", do: "ALTER TABLE shard_002.comment DISABLE TRIGGER shardctl_ill_guard", broken: "fence.guard"},
		{name: "the source's fence", where: -1, do: "ALTER TABLE public.comment DISABLE TRIGGER shardctl_ill_fence_1", broken: "fence.source"},
		{name: "a sequence", do: "ALTER SEQUENCE public.comment_id_seq INCREMENT BY 1", undo: "ALTER SEQUENCE public.comment_id_seq INCREMENT BY 3", broken: "sequence"},
	} {
		dsn := w.sourceDSN()
		if d.where >= 0 {
			dsn = w.databaseDSN(d.where)
		}
		w.exec(dsn, d.do)
		if len(of(w.doctor(t, 4), d.broken, "broken")) == 0 {
			t.Errorf("%s: %s is not broken", d.name, d.broken)
		}
		if d.undo != "" {
			w.exec(dsn, d.undo)
		} else {
			w.must(t, "doctor", "--repair", "--yes")
		}
		w.well(t, "verify")
	}
}
