package cutover_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// TestADryRunListsTheStepsThatASwitchTakes in their order, and after one how long each
// took.
func TestADryRunListsTheStepsThatASwitchTakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, turn := range []struct {
		d   cutover.Direction
		run func(cutover.Config) (cutover.Report, error)
	}{{cutover.Forward, r.forth}, {cutover.Back, r.back}} {
		planned, err := cutover.DryRun(t.Context(), r.cfg, turn.d)
		if err != nil || planned.Outcome != cutover.Planned {
			t.Fatalf("%s: %s %v", turn.d, planned.Outcome, err)
		}
		report := r.turn(turn.run, cutover.Done)
		taken := names(report.Steps)
		want := slices.DeleteFunc(names(planned.Steps), func(name string) bool {
			return name == "gate: routers probed" || name == "watchdog" // a part of the gate before it; none here
		})
		if !slices.Equal(taken, want) {
			t.Errorf("%s: taken\n%q, planned\n%q", turn.d, taken, want)
		}
	}
	again, err := cutover.DryRun(t.Context(), r.cfg, cutover.Forward)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range again.Steps {
		known := s.Expected != nil
		if known == (s.Name == "gate: routers probed" || s.Name == "watchdog") {
			t.Errorf("step %s: expected %v", s.Name, s.Expected)
		}
	}
}

func names(steps []cutover.Step) (out []string) {
	for _, s := range steps {
		out = append(out, s.Name)
	}
	return out
}

// TestADryRunOfWhatWasDone has nothing to list, or what is left of it, as the command itself
// has nothing to do.
func TestADryRunOfWhatWasDone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dry := func(d cutover.Direction, want cutover.Outcome) cutover.Report {
		t.Helper()
		report, err := cutover.DryRun(t.Context(), r.cfg, d)
		if err != nil || report.Outcome != want || (len(report.Steps) == 0) != (want == cutover.Nothing) {
			t.Fatalf("%s: %+v %v", d, report, err)
		}
		return report
	}
	dry(cutover.Back, cutover.Nothing)
	r.turn(r.forth, cutover.Done)
	if report := dry(cutover.Forward, cutover.Nothing); report.Phase != migrate.CutOver {
		t.Errorf("the phase is %q", report.Phase)
	}
	dry(cutover.Back, cutover.Planned)
	r.db1.Exec(t, "UPDATE shardctl.control SET epoch = epoch - 1")
	left := []string{"take over", "open", "flip", "read back", "resume", "settle"}
	if got := names(dry(cutover.Forward, cutover.Planned).Steps); !slices.Equal(got, left) {
		t.Errorf("of a switch that was not carried out everywhere it lists %q", got)
	}
	r.turn(r.forth, cutover.Done)
	dry(cutover.Forward, cutover.Nothing)
}

// TestADryRunNeedsNoRightToWrite: it names what it does not run.
func TestADryRunNeedsNoRightToWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	writer := r.cfg
	r.cfg.Databases = slices.Clone(r.cfg.Databases)
	r.source.Exec(t, "CREATE ROLE dry_reader LOGIN IN ROLE pg_read_all_data")
	t.Cleanup(func() { r.source.Exec(t, "DROP ROLE dry_reader") })
	for i, d := range []*pgtest.Database{r.source, r.db0, r.db1} {
		dsn, err := url.Parse(d.DSN())
		must(t, err)
		dsn.User = url.User("dry_reader")
		if i == 0 {
			r.cfg.Source.DSN = migrate.Secret(dsn.String())
		} else {
			r.cfg.Databases[i-1].DSN = migrate.Secret(dsn.String())
		}
	}
	if _, err := cutover.Cutover(t.Context(), r.cfg); err == nil {
		t.Fatal("the role may write")
	}
	for _, d := range []cutover.Direction{cutover.Forward, cutover.Back} {
		report, err := cutover.DryRun(t.Context(), r.cfg, d)
		if err != nil || report.Outcome != cutover.Planned {
			t.Errorf("%s: %+v %v", d, report, err)
		}
		unrun := 0
		for _, s := range report.Steps {
			if s.Outcome == cutover.NeedsWrite {
				unrun++
			}
		}
		if unrun < 10 || unrun == len(report.Steps) {
			t.Errorf("%s: %d of %d steps were not run", d, unrun, len(report.Steps))
		}
		if d == cutover.Forward {
			if _, err := cutover.Cutover(t.Context(), writer); err != nil {
				t.Fatal(err)
			}
		}
	}
}
