package cutover_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/migrate"
)

// spy is a router that notes what it is told, and may refuse to be flipped.
type spy struct {
	topology.Router
	mu     sync.Mutex
	calls  []string
	refuse bool
}

func (s *spy) note(call string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return s.refuse
}

func (s *spy) Commit(ctx context.Context, doc topology.Topology) error {
	if s.note(fmt.Sprintf("commit %d", doc.Epoch)) {
		return errors.New("it cannot be flipped")
	}
	return s.Router.Commit(ctx, doc)
}

func (s *spy) Resume(ctx context.Context) error {
	s.note("resume")
	return s.Router.Resume(ctx)
}

// told gives the calls since the last look, and sets what comes.
func (s *spy) told(refuse bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls, s.refuse = nil, refuse
	return calls
}

func (r *rig) spied() *spy {
	s := &spy{Router: r.cfg.Routers[0]}
	r.cfg.Routers[0] = s
	return s
}

// A switch that was committed but did not flip the routers is finished before the
// next one begins, in either direction: clients are not released to a side that
// refuses them.
func TestTheLastSwitchIsFinishedBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.spied()
	s.told(true)
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitError || report.Outcome != cutover.Done {
		t.Fatalf("a cutover that cannot flip: %+v %v", report, err)
	}
	if err := cutover.Settled(t.Context(), r.cfg, cutover.Forward); migrate.ExitCode(err) != migrate.ExitRefused {
		t.Errorf("it is called settled: %v", err)
	}
	s.told(false)
	if _, err := cutover.Rollback(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if calls := s.told(true); len(calls) < 2 || calls[0] != "commit 2" || calls[1] != "resume" {
		t.Errorf("a rollback after it tells the router %v", calls)
	}
	if _, err = cutover.Cutover(t.Context(), r.cfg); err == nil {
		t.Fatal("a cutover that cannot flip succeeds")
	}
	s.told(true)
	if _, err := cutover.Rollback(t.Context(), r.cfg); err == nil {
		t.Fatal("a rollback begins though the router cannot be flipped")
	}
	s.told(false)
	if _, err := cutover.Rollback(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if calls := s.told(false); calls[0] != "commit 4" {
		t.Errorf("a rollback after it tells the router %v", calls)
	}
	if err := cutover.Settled(t.Context(), r.cfg, cutover.Back); err != nil {
		t.Error(err)
	}
}

// An undo does not depend on the sessions that its command broke.
func TestARollbackIsUndoneWithoutItsSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := cutover.Cutover(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	r.verdict.set(func(context.Context) error {
		for _, d := range []*pgtest.Database{r.source, r.db0, r.db1} {
			d.EndSessions(t, "datname = current_database() AND application_name IN ('shardctl rollback', 'shardctl rollback journal', 'shardctl switch')")
		}
		return errors.New("a row differs")
	})
	report, err := cutover.Rollback(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(false, true)
}

// A watchdog that died does not fail the switch that it guarded.
func TestADeadWatchdogIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Watchdog = func(ctx context.Context, w cutover.Watch) (cutover.Watchdog, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			_, _ = fmt.Fprintln(outW, "ready")
			_, _ = bufio.NewReader(inR).ReadString('\n')
			_, _ = fmt.Fprintln(outW, "armed")
			_, _ = inR.Close(), outW.Close()
		}()
		return cutover.NewGuarded(ctx, w, inW, outR)
	}
	if report, err := cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(false, true)
}

// A command that is held up right after its commit finds its work done by the
// watchdog: the switch is done.
func TestTheWatchdogFinishesWhatWasCommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxPause = 2 * time.Second
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.cfg.Observe = func(s cutover.Step) {
		if s.Name != "commit" {
			return
		}
		if err := <-acted; err != nil {
			t.Errorf("watchdog: %v", err)
		}
	}
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if err != nil || report.Outcome != cutover.Done {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(false, true)
}

// Where the watchdog could not flip the routers either, the switch is not called done.
func TestASwitchIsNotDoneBeforeTheRoutersLeadThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.spied()
	s.told(true)
	r.cfg.MaxPause = 2 * time.Second
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.cfg.Observe = func(step cutover.Step) {
		if step.Name == "commit" {
			<-acted
		}
	}
	if report, err := cutover.Cutover(t.Context(), r.cfg); migrate.ExitCode(err) != migrate.ExitError {
		t.Errorf("%+v %v", report, err)
	}
	s.told(false)
	r.cfg.Watchdog, r.cfg.Observe = nil, nil
	if report, err := cutover.Cutover(t.Context(), r.cfg); err != nil {
		t.Errorf("run again: %+v %v", report, err)
	}
	if err := cutover.Settled(t.Context(), r.cfg, cutover.Forward); err != nil {
		t.Error(err)
	}
}

// A rollback that is stopped in the middle of a tick holds the source's row of a
// database and the database's own; the watchdog opens the databases all the same.
func TestTheWatchdogEndsAStoppedTick(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := cutover.Cutover(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	r.cfg.MaxPause = 2 * time.Second
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.verdict.set(func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx)
		tick := r.connect("tick", r.source)
		tx, err := tick.Begin(ctx)
		must(t, err)
		_, err = store.ShareOwnership(ctx, tx, "m", "db0")
		must(t, err)
		held, err := r.connect("held", r.db1).Begin(ctx)
		must(t, err)
		_, err = store.ShareControl(ctx, held, "m")
		must(t, err)
		if err := <-acted; err != nil {
			t.Errorf("watchdog: %v", err)
		}
		return nil
	})
	if _, err := cutover.Rollback(t.Context(), r.cfg); migrate.ExitCode(err) != migrate.ExitAborted {
		t.Errorf("%v", err)
	}
	r.serving(false, true)
}

// The next command does not wait for a process that was stopped in the middle of a tick.
func TestAStoppedTickDoesNotKeepTheNextCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tx, err := r.connect("tick", r.db0).Begin(t.Context())
	must(t, err)
	_, err = store.ShareControl(t.Context(), tx, "m")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if report, err := cutover.Cutover(ctx, r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Errorf("%+v %v", report, err)
	}
}

// A database that does not answer after the commit keeps nobody waiting: the routers
// are released, and it is opened when it answers.
func TestADatabaseThatDoesNotAnswerIsOpenedAfterTheRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxPause = 2 * time.Second
	var silent pgx.Tx
	var steps []string
	r.cfg.Observe = func(s cutover.Step) {
		steps = append(steps, s.Name)
		ctx, err := context.Background(), error(nil)
		switch s.Name {
		case "commit":
			silent, err = r.connect("silent", r.db1).Begin(ctx)
			must(t, err)
			_, err = silent.Exec(ctx, "SELECT FROM shardctl.control FOR UPDATE")
		case "resume":
			err = silent.Rollback(ctx)
		}
		must(t, err)
	}
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if err != nil || report.Outcome != cutover.Done {
		t.Fatalf("%+v %v", report, err)
	}
	if i := slices.Index(steps, "resume"); i < 0 || !slices.Contains(steps[i:], "open again") {
		t.Errorf("the steps: %v", steps)
	}
	if refused(t, r.db1, "UPDATE s_2.item SET body = 'y'") {
		t.Error("the database stays closed")
	}
}

// stopwatch is a router that knows for how long it has held clients.
type stopwatch struct {
	topology.Router
	mu           sync.Mutex
	paused, over time.Time
}

func (w *stopwatch) Pause(ctx context.Context, scope topology.Scope) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused, w.over = time.Now(), time.Time{}
	return w.Router.Pause(ctx, scope)
}

func (w *stopwatch) Resume(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over.IsZero() {
		w.over = time.Now()
	}
	return w.Router.Resume(ctx)
}

func (w *stopwatch) released() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.over.IsZero()
}

// hung is a router that does not answer before clients were released.
type hung struct {
	topology.Router
	until *stopwatch
}

func (h hung) Commit(ctx context.Context, doc topology.Topology) error {
	if !h.until.released() {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Router.Commit(ctx, doc)
}

// Once the switch is committed, who does not answer keeps nobody waiting past max_pause and
// a second: it is asked again after the release.
func TestNobodyWaitsPastThePauseForWhoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ database, router bool }{"a database": {database: true}, "a router": {router: true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.cfg.MaxPause = 2 * time.Second
			watch := &stopwatch{Router: r.cfg.Routers[0]}
			r.cfg.Routers[0] = watch
			if c.router {
				second := r.cfg.Layout.Spec.Topology[0]
				second.Path += ".2"
				r.cfg.Routers = append(r.cfg.Routers, hung{file.New(r.cfg.Layout.Spec, second), watch})
			}
			var silent pgx.Tx
			r.cfg.Observe = func(s cutover.Step) {
				switch {
				case s.Name == "commit" && c.database:
					tx, err := r.connect("silent", r.db1).Begin(context.Background())
					must(t, err)
					silent = tx
					_, err = tx.Exec(context.Background(), "SELECT FROM shardctl.control FOR UPDATE")
					must(t, err)
				case s.Name == "resume" && silent != nil:
					must(t, silent.Rollback(context.Background()))
				}
			}
			report, err := cutover.Cutover(t.Context(), r.cfg)
			if err != nil || report.Outcome != cutover.Done {
				t.Errorf("%+v %v", report, err)
			}
			const busy = time.Second // a machine with other work
			if held := watch.over.Sub(watch.paused); held > r.cfg.MaxPause+time.Second+busy {
				t.Errorf("clients were held for %s: %+v", held, report.Steps)
			}
			r.serving(false, true)
			if refused(t, r.db1, "UPDATE s_2.item SET body = 'y'") {
				t.Error("the database stays closed")
			}
		})
	}
}

// A database that could not be reached when the terms were raised is opened when it can be.
func TestADatabaseThatHasNotHeardOfTheTermIsOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Observe = func(s cutover.Step) {
		if s.Name == "commit" {
			r.db0.Exec(t, "UPDATE shardctl.control SET term = term - 1")
		}
	}
	if report, err := cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Errorf("%+v %v", report, err)
	}
	r.serving(false, true)
	if got, want := r.db0.Value(t, "SELECT term FROM shardctl.control"), r.source.Value(t, "SELECT max(term) FROM shardctl.ownership"); got != want {
		t.Errorf("its term is %s, the source's %s", got, want)
	}
}

// What could not be undone everywhere is said to be that, not to be unknown, and the
// next attempt begins with it.
func TestAHalfUndoneRollbackIsUndoneByTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.spied()
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	s.told(true)
	if report, err := cutover.Cutover(t.Context(), r.cfg); err == nil || report.Outcome != cutover.Refused {
		t.Errorf("a cutover that is done, with a router that cannot be flipped: %+v %v", report, err)
	}
	s.told(false)
	var silent pgx.Tx
	r.verdict.set(func(ctx context.Context) error {
		silent, err = r.connect("silent", r.db1).Begin(context.WithoutCancel(ctx))
		must(t, err)
		_, err = silent.Exec(ctx, "SELECT FROM shardctl.control FOR UPDATE")
		must(t, err)
		return errors.New("a row differs")
	})
	_, err = cutover.Rollback(t.Context(), r.cfg)
	var f *migrate.Failure
	if !errors.As(err, &f) || f.Code != "rollback.half_undone" || f.Exit != migrate.ExitAmbiguous {
		t.Errorf("got %v", err)
	}
	must(t, silent.Rollback(t.Context()))
	r.verdict.set(nil)
	_, err = cutover.Rollback(t.Context(), r.cfg)
	must(t, err)
	r.serving(true, false)
}
