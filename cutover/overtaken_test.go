package cutover_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
)

// One that was stopped at any point after its commit goes on while a later command holds
// the routers: its watchdog has finished for it, and it releases nobody.
func TestAProcessThatWasOvertakenAfterItsCommitReleasesNobody(t *testing.T) {
	t.Parallel()
	for _, at := range []order{{Step: "commit", Done: true}, {Step: "open"}, {Step: "read back", Done: true}} {
		t.Run(at.Step, func(t *testing.T) {
			t.Parallel()
			s := &stage{rig: newRig(t), gate: newTurnstile(t), pause: 3 * time.Second}
			at.Direction, at.Only = cutover.Forward, []string{"db0"}
			a := s.begin(at)
			if _, reached := a.hear("reached"); !reached {
				t.Fatalf("it did not come there: %s", a.log)
			}
			a.stop()
			if err := <-a.guard; err != nil {
				t.Errorf("watchdog: %v", err)
			}
			a.guard <- nil // end looks for it
			s.source.Exec(t, "UPDATE shardctl.lease SET heartbeat_at = heartbeat_at - interval '1 min'")
			goOn, ended := s.inAWindow("db1")
			a.signal(syscall.SIGCONT)
			a.release()
			if r, _ := a.end(); r == nil || r.Outcome != cutover.Done || r.Exit != 0 {
				t.Errorf("%+v", r)
			}
			if !s.gate.holds() {
				t.Error("clients of another's window were released")
			}
			if held, err := store.LeftHeld(t.Context(), s.connect("journal", s.source), "m"); err != nil || held != "cutover" {
				t.Errorf("the journal says that %q holds them: %v", held, err)
			}
			close(goOn)
			must(t, <-ended)
			if s.gate.holds() {
				t.Error("clients are still held")
			}
		})
	}
}

// inAWindow begins a cutover of one database, and returns when it holds the routers, up to
// when the first channel is closed.
func (s *stage) inAWindow(database string) (goOn chan struct{}, ended chan error) {
	inside := make(chan struct{})
	goOn, ended = make(chan struct{}), make(chan error, 1)
	s.verdict.set(func(context.Context) error {
		close(inside)
		<-goOn
		return nil
	})
	o := order{Turnstile: s.gate.listener.Addr().String(), Direction: cutover.Forward, Only: []string{database}, MaxPause: time.Minute}
	go func() {
		_, err := o.command(context.Background(), s.cfg.Layout, s.verdict, nil)
		ended <- err
	}()
	select {
	case <-inside:
	case err := <-ended:
		s.t.Fatalf("it did not come to hold them: %v", err)
	}
	return goOn, ended
}

// A watchdog that is slow may come upon the term of a command that was run meanwhile: the
// window of that one is not its to end, and what nobody else holds is.
func TestAWatchdogThatWasOvertaken(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"leaves what another one holds": true, "releases what nobody else does": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.cfg.MaxPause = 2 * time.Second
			l := r.latch()
			acted := make(chan error, 1)
			r.cfg.Watchdog = r.watched(acted)
			held := func(when string) {
				t.Helper()
				if (l.held.Load() == 1) != other {
					t.Errorf("%s: clients are held: %d", when, l.held.Load())
				}
			}
			r.verdict.set(func(context.Context) error {
				r.db0.Exec(t, "UPDATE shardctl.control SET term = term + 1000")
				if other {
					must(t, store.NewJournal("m", "cutover").Record(t.Context(), r.connect("journal", r.source), "pause", "started", map[string]any{"databases": []string{"db1"}, "max_pause_ms": 2000}))
				}
				if err := <-acted; !errors.Is(err, store.ErrTerm) {
					t.Errorf("watchdog: %v", err)
				}
				held("when the watchdog has ended")
				return errors.New("a row differs")
			})
			if report, err := cutover.Cutover(t.Context(), r.cfg); err == nil || report.Outcome != cutover.Aborted {
				t.Errorf("%+v %v", report, err)
			}
			held("at the end")
		})
	}
}

// Without the source a watchdog ends a rollback by the databases' own word, which may be
// that a later command is at work: it touches none of them.
func TestAWatchdogWithoutTheSourceLeavesALaterCommandsDatabases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.turn(r.forth, cutover.Done)
	r.cfg.MaxPause = 2 * time.Second
	l := r.latch()
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.verdict.set(func(context.Context) error {
		back := r.sourceLost("shardctl watchdog%")
		defer back()
		for _, d := range []*pgtest.Database{r.db0, r.db1} {
			d.Exec(t, "UPDATE shardctl.control SET term = term + 1000")
			defer d.Exec(t, "UPDATE shardctl.control SET term = term - 1000")
		}
		later := r.db0.Value(t, "SELECT term FROM shardctl.control")
		if err := <-acted; !errors.Is(err, store.ErrTerm) {
			t.Errorf("watchdog: %v", err)
		}
		if now := r.db0.Value(t, "SELECT term FROM shardctl.control"); now != later {
			t.Errorf("term %s was raised to %s", later, now)
		}
		if l.held.Load() == 1 {
			t.Error("clients are held, and nobody can be asked")
		}
		return errors.New("a row differs")
	})
	if report, err := cutover.Rollback(t.Context(), r.cfg); err == nil || report.Outcome != cutover.Aborted {
		t.Errorf("%+v %v", report, err)
	}
}

// sourceLost ends the sessions of such names on the source and lets nobody in, until the
// function that comes back is called.
func (r *rig) sourceLost(names string) (back func()) {
	r.t.Helper()
	r.db1.Exec(r.t, "ALTER DATABASE "+r.source.Name+" ALLOW_CONNECTIONS false")
	r.db1.EndSessions(r.t, "datname = $1 AND application_name LIKE $2", r.source.Name, names)
	return func() { r.db1.Exec(r.t, "ALTER DATABASE "+r.source.Name+" ALLOW_CONNECTIONS true") }
}

// The source may be lost after it has taken the watchdog's term and before it has said who
// owns the shards: clients are released all the same.
func TestASourceThatIsLostInTheMiddleOfTheWatchdogsWork(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"cutover": false, "rollback": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			run := cutover.Cutover
			if back {
				r.turn(r.forth, cutover.Done)
				run = cutover.Rollback
			}
			r.cfg.MaxPause = 2 * time.Second
			l := r.latch()
			acted := make(chan error, 1)
			r.cfg.Watchdog = r.watched(acted)
			r.db1.Exec(t, raisedSlowly)
			r.verdict.set(func(context.Context) error {
				gate, term := r.db1.Connect(t), r.source.Value(t, "SELECT min(term) FROM shardctl.ownership")
				_, err := gate.Exec(t.Context(), "SELECT pg_advisory_lock(1)")
				must(t, err)
				if !pgtest.Holds(patience, func() bool { return r.source.Value(t, "SELECT min(term) FROM shardctl.ownership") != term }) {
					t.Error("the term was not raised")
				}
				sourceBack := r.sourceLost("shardctl watchdog%")
				defer sourceBack()
				_, err = gate.Exec(t.Context(), "SELECT pg_advisory_unlock(1)")
				must(t, err)
				if err := <-acted; err == nil {
					t.Error("the watchdog says that it could do all")
				}
				if l.held.Load() == 1 {
					t.Error("clients are still held")
				}
				return errors.New("a row differs")
			})
			_, _ = run(t.Context(), r.cfg) // how it ends is not what is tested
			r.db1.Exec(t, "DROP TRIGGER slowly ON shardctl.control")
			r.verdict.set(nil)
			r.cfg.Watchdog = nil
			if report, err := run(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
				t.Errorf("run again: %+v %v", report, err)
			}
		})
	}
}

// raisedSlowly makes the watchdog wait in the middle of raising the term on a database.
const raisedSlowly = `CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1);
  RETURN NEW;
END $$;
CREATE TRIGGER slowly BEFORE UPDATE ON shardctl.control
FOR EACH ROW WHEN (current_setting('application_name') = 'shardctl watchdog') EXECUTE FUNCTION slowly()`
