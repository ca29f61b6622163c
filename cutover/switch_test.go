package cutover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/migrate"
)

func TestForwardBackAndForwardAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.serving(true, false)
	turns := []struct {
		name    string
		run     func(context.Context, cutover.Config) (cutover.Report, error)
		forward bool
	}{{"cutover", cutover.Cutover, true}, {"rollback", cutover.Rollback, false}, {"cutover again", cutover.Cutover, true}}
	for _, turn := range turns {
		report, err := turn.run(ctx, r.cfg)
		if err != nil || report.Outcome != cutover.Done || report.Pause.Router == nil {
			t.Fatalf("%s: %+v %v", turn.name, report, err)
		}
		r.serving(!turn.forward, turn.forward)
		if report, err = turn.run(ctx, r.cfg); err != nil || report.Outcome != cutover.Nothing {
			t.Fatalf("%s once more: %s %v", turn.name, report.Outcome, err)
		}
	}
	if got := r.source.Value(t, "SELECT phase || ' ' || min(epoch) || ' ' || max(epoch) FROM shardctl.migration, shardctl.ownership GROUP BY phase"); got != "cut_over 4 4" {
		t.Errorf("state %s", got)
	}
	// What the databases draw is past what the source drew, and in lanes of their own.
	a := r.db0.Value(t, "SELECT nextval('public.item_id_seq')")
	b := r.db1.Value(t, "SELECT nextval('public.item_id_seq')")
	if a == b {
		t.Errorf("both databases drew %s", a)
	}
}

func TestADifferenceInTheWindowAborts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.verdict.set(func(context.Context) error { return errors.New("a row differs") })
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted || report.Reason == nil {
		t.Fatalf("%+v %v", report, err)
	}
	r.serving(true, false)
	r.verdict.set(nil)
	if report, err = cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Fatalf("after it was mended: %+v %v", report, err)
	}
	r.verdict.set(func(context.Context) error { return errors.New("a row differs") })
	report, err = cutover.Rollback(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted {
		t.Fatalf("rollback: %+v %v", report, err)
	}
	r.serving(false, true) // the databases were closed, and are open again
}

func TestAnOpenWriterEndsInAnAbortThatNamesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxPause = 1500 * time.Millisecond
	writer := r.source.Connect(t)
	if _, err := writer.Exec(t.Context(), "BEGIN; INSERT INTO item (owner) VALUES (5)"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := cutover.Cutover(t.Context(), r.cfg)
	if code := migrate.ExitCode(err); code != migrate.ExitAborted && code != migrate.ExitRefused {
		t.Fatalf("with an open writer: %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	if _, err := writer.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatalf("the writer was disturbed: %v", err)
	}
	r.serving(true, false)
}

// A command that hangs in the window is ended by its watchdog: its sessions are
// gone, the term is raised, and traffic is where it was.
func TestTheWatchdogReleasesAHungCutover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxPause = 2 * time.Second
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.verdict.set(func(context.Context) error { // deaf to its context, as a stopped process is
		const terms = "SELECT min(term) FROM shardctl.ownership"
		before := r.source.Value(t, terms)
		if err := <-acted; err != nil {
			t.Errorf("watchdog: %v", err)
		}
		if r.source.Value(t, terms) == before {
			t.Error("what the command still does would count")
		}
		return nil
	})
	report, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted {
		t.Fatalf("a command that was fenced off: %+v %v", report, err)
	}
	r.serving(true, false)
	r.cfg.Watchdog = nil
	r.verdict.set(nil)
	if report, err = cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Fatalf("run again: %+v %v", report, err)
	}
	r.serving(false, true)
}

func TestTheWatchdogReopensAfterAHungRollback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := cutover.Cutover(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	r.cfg.MaxPause = 2 * time.Second
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	r.verdict.set(func(context.Context) error {
		if err := <-acted; err != nil {
			t.Errorf("watchdog: %v", err)
		}
		return nil
	})
	report, err := cutover.Rollback(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitAborted || report.Outcome != cutover.Aborted {
		t.Fatalf("a command that was fenced off: %+v %v", report, err)
	}
	r.serving(false, true)
}

func TestADisarmedWatchdogDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	acted := make(chan error, 1)
	r.cfg.Watchdog = r.watched(acted)
	if report, err := cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Done {
		t.Fatalf("%+v %v", report, err)
	}
	if err := <-acted; !errors.Is(err, errNotActed) {
		t.Errorf("watchdog: %v", err)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.source.Rows(t, "SELECT * FROM shardctl.ownership ORDER BY 2")
	journal := r.source.Value(t, "SELECT count(*) FROM shardctl.journal")
	report, err := cutover.DryRun(t.Context(), r.cfg, cutover.Forward)
	if err != nil || len(report.Steps) < 10 {
		t.Fatalf("%+v %v", report, err)
	}
	after := r.source.Rows(t, "SELECT * FROM shardctl.ownership ORDER BY 2")
	if len(before) != len(after) || before[0] != after[0] || r.source.Value(t, "SELECT count(*) FROM shardctl.journal") != journal {
		t.Errorf("state changed from %v to %v", before, after)
	}
	r.serving(true, false)
}
