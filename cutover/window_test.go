package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

type lacking struct{}

func (lacking) Whole(_ context.Context, database string) error {
	return migrate.Refuse("backfill.missing", database, "a chunk is missing", "run shardctl backfill")
}

// A database that failed over after its copy may have lost a part of it.
func TestACopyThatIsNotWholeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Copy = lacking{}
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitRefused || report.Pause.Router != nil {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(true, false)
}

// latch is a router that knows whether it holds clients.
type latch struct {
	topology.Router
	held, pauses atomic.Int32
}

// latch puts one before the rig's router.
func (r *rig) latch() *latch {
	l := &latch{Router: r.cfg.Routers[0]}
	r.cfg.Routers[0] = l
	return l
}

func (l *latch) Pause(ctx context.Context, scope topology.Scope) error {
	l.held.Store(1)
	l.pauses.Add(1)
	return l.Router.Pause(ctx, scope)
}

func (l *latch) Resume(ctx context.Context) error {
	l.held.Store(0)
	return l.Router.Resume(ctx)
}

func TestAnAbortReleasesTheRouters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.latch()
	differs := func(context.Context) error {
		if l.held.Load() == 0 {
			t.Error("the window is open and clients are not held")
		}
		return errors.New("a row differs")
	}
	r.verdict.set(differs)
	if _, err := cutover.Cutover(t.Context(), r.cfg); migrate.ExitCode(err) != migrate.ExitAborted || l.held.Load() == 1 {
		t.Errorf("cutover: held %d, %v", l.held.Load(), err)
	}
	r.verdict.set(nil)
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	r.verdict.set(differs)
	if _, err := cutover.Rollback(t.Context(), r.cfg); migrate.ExitCode(err) != migrate.ExitAborted || l.held.Load() == 1 {
		t.Errorf("rollback: held %d, %v", l.held.Load(), err)
	}
	if l.pauses.Load() != 3 {
		t.Errorf("clients were held %d times, in three windows", l.pauses.Load())
	}
}

// One that was stopped for so long that another command took its lease and switched holds
// nobody when it goes on: no one would release what it holds.
func TestAProcessThatWasOvertakenHoldsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.latch()
	other := r.cfg
	r.cfg.Observe = func(s cutover.Step) {
		if s.Name != "gate: level" {
			return
		}
		r.source.Exec(t, "UPDATE shardctl.lease SET heartbeat_at = heartbeat_at - interval '1 min'")
		if report, err := cutover.Cutover(t.Context(), other); err != nil {
			t.Errorf("the other one: %+v %v", report, err)
		}
	}
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitLeaseHeld || report.Outcome != cutover.Refused {
		t.Errorf("%+v %v", report, err)
	}
	if l.held.Load() == 1 || l.pauses.Load() != 1 {
		t.Errorf("clients are held: %d, and were %d times, in one window", l.held.Load(), l.pauses.Load())
	}
	r.serving(false, true)
}

// slowCommit makes the COMMIT that moves ownership last, deaf to being cancelled.
const slowCommit = `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz := clock_timestamp() + interval '8 s';
BEGIN
  WHILE clock_timestamp() < until LOOP
    BEGIN
      PERFORM pg_sleep(0.05);
    EXCEPTION WHEN query_canceled THEN NULL;
    END;
  END LOOP;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON shardctl.ownership DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.database = 'db0' AND NEW.owner = 'db0') EXECUTE FUNCTION slow()`

// A COMMIT whose answer does not come may still be under way: it is ended before
// anybody says that it did not happen.
func TestACommitInFlightIsEndedBeforeItIsReadBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.source.Exec(t, slowCommit)
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(true, false) // waits for whatever still holds the tables
	r.source.Exec(t, "DROP TRIGGER slow ON shardctl.ownership")
	if report, err = cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Errorf("after it was mended: %+v %v", report, err)
	}
	r.serving(false, true)
}

// A write that a database has acknowledged in the last moment goes back with the others.
func TestARollbackTakesAlongWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	last, refusals := "", 0
	r.cfg.Observe = func(s cutover.Step) {
		if refused(t, r.db0, fmt.Sprintf("UPDATE s_0.item SET body = '%s'", s.Name)) {
			refusals++
		} else {
			last = s.Name
		}
	}
	_, err = cutover.Rollback(t.Context(), r.cfg)
	must(t, err)
	want := r.db0.Value(t, "SELECT count(*) FROM s_0.item WHERE body = $1", last)
	if got := r.source.Value(t, "SELECT count(*) FROM item WHERE body = $1", last); got != want || want == "0" || refusals == 0 {
		t.Errorf("%s rows went back of %s that were written after %q; %d writes were refused", got, want, last, refusals)
	}
}

func TestSequencesAreNeverLowered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	r.db0.Exec(t, "SELECT setval('public.item_id_seq', 1000000)")
	_, err = cutover.Rollback(t.Context(), r.cfg)
	must(t, err)
	if got := r.source.Value(t, "SELECT last_value >= 1000000 FROM public.item_id_seq"); got != "t" {
		t.Error("the source draws what a database has drawn")
	}
	r.source.Exec(t, "ALTER SEQUENCE public.item_id_seq RESTART WITH 100") // a person may
	_, err = cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	if got := r.db0.Value(t, "SELECT last_value FROM public.item_id_seq"); len(got) < 7 {
		t.Errorf("a database that had drawn 1000000 draws from %s", got)
	}
}
