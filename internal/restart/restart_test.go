package restart

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

var errKilled = errors.New("killed")

// killedAt ends a run before a step.
func killedAt(step, database string) func(string, string) error {
	return func(s, d string) error {
		if s == step && d == database {
			return errKilled
		}
		return nil
	}
}

// A run that is killed at any step leaves a database over which no tick goes on, and is
// run again to the same end.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n, k := range []struct {
		step, database string
		standing       []string // databases with a gap afterwards
	}{
		{"take over", "", both}, {"forget", "db1", both}, {"resume", "", both}, {"await writers", "", both}, {"mark", "", both},
		{"empty", "db0", both}, {"end gap", "db0", both}, {"empty", "db1", both[1:]}, {"end gap", "db1", both[1:]}, {"done", "", nil},
	} {
		w.write(3 * n)
		w.stop()
		w.write(3*n + 1) // recorded by nobody
		if err := w.restart(killedAt(k.step, k.database), both...); !errors.Is(err, errKilled) {
			t.Fatalf("%+v: %v", k, err)
		}
		if got := w.gaps(); !slices.Equal(got, k.standing) {
			t.Errorf("%+v: a gap stands for %v", k, got)
		}
		w.write(3*n + 2)
		for _, name := range both {
			if err := w.forward(name); !slices.Contains(k.standing, name) {
				must(t, err)
			} else {
				failure(t, err, "gap", "shardctl prepare --database "+name)
			}
		}
	}
	w.stop()
	w.write(100)
	must(t, w.restart(nil, both...))
	for _, name := range both {
		if n := w.rows(name); n > 0 {
			t.Errorf("%s was emptied and has %d rows", name, n)
		}
	}
	w.write(101)
	w.tick()
	w.copy()
	w.tick()
	w.equal()
	if found, err := w.look(both...); err != nil || len(found) > 0 {
		t.Errorf("afterwards %v, %v", found, err)
	}
}

// One database is started anew and copied without the other, whose rows and ledger stay.
func TestOneOfTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ledger := func() []string {
		return w.dbs["db0"].Rows(t, "SELECT * FROM shardctl.ledger ORDER BY plan, table_no, chunk")
	}
	before, rows := ledger(), w.rows("db0")
	w.source.Exec(t, "INSERT INTO shardctl.gap VALUES ('m', 'db1', 'forward', 'for the test')")
	w.dbs["db1"].Exec(t, "INSERT INTO shardctl.quarantine VALUES ('m', 'db1', 'forward', 1, '[1]', 'r', 'f', 'l')")
	if found, err := w.look(both...); err != nil || len(found) != 1 || found[0].Name != "db1" || !strings.HasSuffix(found[0].Gap, "for the test") {
		t.Fatalf("to be started anew: %v, %v", found, err)
	}
	generation := w.dbs["db1"].Value(t, "SELECT plan FROM shardctl.control")
	must(t, w.restart(nil, "db1"))
	if !slices.Equal(ledger(), before) || w.rows("db0") != rows {
		t.Error("the other database was touched")
	}
	for what, sql := range map[string]string{
		"ledger": "SELECT FROM shardctl.ledger", "quarantine": "SELECT FROM shardctl.quarantine", "tombstones": "SELECT FROM shardctl.m_tomb_1", "an old number": "SELECT FROM shardctl.control WHERE plan = " + generation,
		"pruning behind the marker": "SELECT FROM shardctl.pruned WHERE through < (SELECT tick FROM shardctl.position)",
	} {
		if left := w.dbs["db1"].Rows(t, sql); len(left) > 0 {
			t.Errorf("%s: %v", what, left)
		}
	}
	lacks, err := backfill.Lacking(t.Context(), w.conn, w.conns["db1"], "m", "db1")
	if err != nil || lacks == "" {
		t.Errorf("its copy is said to be whole: %v", err)
	}
	if res := w.copy("db0"); !res.NothingToDo {
		t.Error("the other database was copied to")
	}
	if res := w.copy("db1"); res.NothingToDo {
		t.Error("nothing was copied")
	}
	if mode := w.source.Value(t, "SELECT mode || ', ' || reason FROM shardctl.backfill_mode WHERE database = 'db1' AND finished_at IS NOT NULL"); mode != "live, unique indexes or foreign keys stand beside its primary keys" {
		t.Errorf("it was copied %s", mode)
	}
	w.write(1)
	w.tick()
	w.equal()
}

// A transaction that wrote while nothing was recorded, and is still open, would be lost:
// no snapshot sees it, and the log has no entry.
func TestAWriterOfTheTimeBeforeIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	writer, err := w.connect(w.sourceTarget()).Begin(t.Context())
	must(t, err)
	_, err = writer.Exec(t.Context(), "INSERT INTO public.block VALUES (5000, 1, 'late')")
	must(t, err)
	subjects, err := w.look(both...)
	must(t, err)
	cfg := Config{Layout: w.layout, Source: w.conn, Databases: w.conns, writersWait: 1}
	failure(t, Run(t.Context(), cfg, subjects), "restart.writers", "INSERT INTO public.block")
	if got := w.gaps(); !slices.Equal(got, both) {
		t.Errorf("a gap stands for %v", got)
	}
	must(t, writer.Commit(t.Context()))
	must(t, w.restart(nil, both...))
	w.tick()
	w.copy()
	w.equal()
}

// A capture that is stopped again before the gap's row is gone leaves the row.
func TestAGapThatOpensAgainStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	err := w.restart(func(step, database string) error {
		if step == "end gap" {
			w.stop()
		}
		return nil
	}, both...)
	failure(t, err, "gap", "db0")
	failure(t, w.forward("db0"), "gap")
	if got := w.gaps(); !slices.Equal(got, both) {
		t.Errorf("a gap stands for %v", got)
	}
}

// A source that went back in time does not hold the markers that databases know, and
// draws terms and ticks that they have seen.
func TestASourceThatWentBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(1)
	w.tick()
	w.source.Exec(t, "DELETE FROM shardctl.marker; SELECT setval('shardctl.tick_seq', 1); UPDATE shardctl.ownership SET term = 1; SELECT setval('shardctl.term_seq', 1)")
	w.source.Exec(t, "DELETE FROM comment WHERE block_id = 1001; DELETE FROM block WHERE id = 1001; UPDATE block SET body = 'as it was' WHERE id = 1")
	must(t, w.restart(nil, both...))
	w.write(2)
	w.tick()
	w.copy()
	w.tick()
	w.equal()
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	refused := func(code string, mentions ...string) {
		t.Helper()
		rows := w.rows("db0")
		subjects, err := w.look("db0")
		if err == nil {
			err = Run(t.Context(), Config{Layout: w.layout, Source: w.conn, Databases: w.conns}, subjects)
		}
		failure(t, err, code, mentions...)
		if w.rows("db0") != rows || !slices.Contains(w.gaps(), "db0") {
			t.Errorf("%s: the database was touched", code)
		}
	}
	on := func(db interface {
		Exec(testing.TB, string, ...any)
	}, do, undo string, code string, mentions ...string) {
		t.Helper()
		db.Exec(t, do)
		refused(code, mentions...)
		db.Exec(t, undo)
	}
	on(w.source, "UPDATE shardctl.ownership SET owner = database WHERE database = 'db0'", "UPDATE shardctl.ownership SET owner = 'source'", "restart.owned", "shardctl rollback --database db0")
	on(w.dbs["db0"], "UPDATE shardctl.control SET owner = 'db0'", "UPDATE shardctl.control SET owner = 'source'", "restart.owned")
	on(w.dbs["db0"], "UPDATE shardctl.control SET epoch = 7", "UPDATE shardctl.control SET epoch = 1", "epoch.source_behind", "shardctl doctor")
	on(w.source, "UPDATE shardctl.member SET dbname = 'another' WHERE database = 'db0'", "UPDATE shardctl.member SET dbname = '"+w.dbs["db0"].Name+"' WHERE database = 'db0'", "database.other_server")
	on(w.dbs["db0"], "CREATE TABLE public.theirs (plan_id int REFERENCES public.plan)", "DROP TABLE public.theirs", "restart.foreign_key", "theirs", "drop that foreign key")
	must(t, w.restart(nil, "db0"))
}

// A stale process does nothing: its term was passed, or the owner changed after it looked.
func TestWhoComesLateDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	rows := w.rows("db0")
	err := w.restart(func(step, database string) error {
		if step == "empty" {
			w.dbs["db0"].Exec(t, "UPDATE shardctl.control SET term = term + 1000")
		}
		return nil
	}, "db0")
	if !errors.Is(err, store.ErrTerm) || w.rows("db0") != rows {
		t.Errorf("with a term that was passed: %v", err)
	}
	err = w.restart(func(step, database string) error {
		if step == "empty" {
			w.dbs["db0"].Exec(t, "UPDATE shardctl.control SET owner = 'db0'")
		}
		return nil
	}, "db0")
	failure(t, err, "restart.owned")
	if w.rows("db0") != rows {
		t.Error("rows that it owns were taken away")
	}
}

// Without replica role chunks meet the foreign keys: those that what follows the copy
// makes again are dropped, others stay.
func TestForeignKeysOfAnAppliersSideAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.dbs["db0"]
	db.Exec(t, `CREATE TABLE a (id int PRIMARY KEY, ours int, theirs int, CONSTRAINT ours FOREIGN KEY (ours) REFERENCES a DEFERRABLE INITIALLY DEFERRED, CONSTRAINT theirs FOREIGN KEY (theirs) REFERENCES a ON DELETE CASCADE);
	CREATE TABLE b (id int CONSTRAINT away REFERENCES a DEFERRABLE INITIALLY DEFERRED)`)
	must(t, postgres.WithTx(t.Context(), w.conns["db0"], pgx.TxOptions{}, func(tx pgx.Tx) error {
		return dropForeignKeys(t.Context(), tx, []string{"public.a"})
	}))
	if left := db.Rows(t, "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conname IN ('ours', 'theirs', 'away') ORDER BY 1"); !slices.Equal(left, []string{"away", "theirs"}) {
		t.Errorf("left are %v", left)
	}
}
