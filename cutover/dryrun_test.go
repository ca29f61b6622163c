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
		if err != nil {
			t.Fatalf("%s: %v", turn.d, err)
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

// TestADryRunNeedsNoRightToWrite: it names what it does not run.
func TestADryRunNeedsNoRightToWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
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
		if err != nil || report.Outcome != cutover.Nothing {
			t.Errorf("%s: %+v %v", d, report, err)
		}
		unrun := 0
		for _, s := range report.Steps {
			if s.Outcome == "not run: needs write" {
				unrun++
			}
		}
		if unrun < 10 || unrun == len(report.Steps) {
			t.Errorf("%s: %d of %d steps were not run", d, unrun, len(report.Steps))
		}
	}
}
