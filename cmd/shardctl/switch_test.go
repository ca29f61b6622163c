package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/migrate"
)

// TestNextOfASwitch: what was for some databases is not followed by a command for all, and
// a dry run by what follows a switch that was done.
func TestNextOfASwitch(t *testing.T) {
	t.Parallel()
	some := switchOptions{Databases: []string{"db0", "db2"}, MaxPause: time.Minute}
	for _, c := range []struct {
		d       cutover.Direction
		o       switchOptions
		outcome cutover.Outcome
		phase   migrate.Phase
		want    string
	}{
		{cutover.Forward, switchOptions{DryRun: true}, cutover.Planned, "", "shardctl cutover"},
		{cutover.Back, switchOptions{DryRun: true}, cutover.Planned, "", "shardctl rollback"},
		{cutover.Forward, some, cutover.Planned, "", "shardctl cutover --database db0,db2 --max-pause 1m"},
		{cutover.Back, some, cutover.Aborted, "", "shardctl rollback --database db0,db2 --max-pause 1m"},
		{cutover.Forward, some, cutover.Done, migrate.PartlyCutOver, "shardctl verify, then shardctl cutover for the rest; or shardctl rollback"},
		{cutover.Forward, switchOptions{}, cutover.Nothing, migrate.CutOver, "shardctl verify, then shardctl complete; or shardctl rollback"},
		{cutover.Back, switchOptions{}, cutover.Done, migrate.RolledBack, "shardctl cutover, or shardctl abort"},
	} {
		if got := nextAfter(c.d, c.o, cutover.Report{Outcome: c.outcome, Phase: c.phase}); got != c.want {
			t.Errorf("%s %+v %s: %q, want %q", c.d, c.o, c.outcome, got, c.want)
		}
	}
}

// TestADryRunPrintsItsSteps, each gate and each step that was not run, and not that there
// is nothing to do.
func TestADryRunPrintsItsSteps(t *testing.T) {
	t.Parallel()
	last := 84.25
	report := cutover.Report{Outcome: cutover.Planned, Next: "shardctl cutover", Steps: []cutover.Step{
		{Name: "gate: verified", Outcome: "ok", MS: 3.14},
		{Name: "pause", Outcome: cutover.NeedsWrite, Expected: &last},
		{Name: "commit", Outcome: cutover.NeedsWrite},
	}}
	var out bytes.Buffer
	printReport(&out, cutover.Forward, switchOptions{DryRun: true}, report)
	want := `  gate: verified               3.1 ms  ok
  pause                             -  not run: needs write, the last time 84.2 ms
  commit                            -  not run: needs write
dry run of cutover: no gate refuses, 2 steps need write and were not run, nothing was changed; next: shardctl cutover
`
	if out.String() != want {
		t.Errorf("it prints\n%s, want\n%s", &out, want)
	}
	out.Reset()
	report.Outcome = cutover.Refused
	printReport(&out, cutover.Forward, switchOptions{DryRun: true}, report)
	if !strings.Contains(out.String(), "\ndry run of cutover: refused, nothing was changed; next: ") {
		t.Errorf("a refused one prints\n%s", &out)
	}
}
