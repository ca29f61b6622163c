package cutover

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/migrate"
)

// needsWrite is the outcome of a step that a dry run must not take.
const needsWrite = "not run: needs write"

// writingGates and window steps, in the order in which a switch takes them.
var (
	forwardWrites = []string{"take over", "gate: routers probed", "gate: reverse proven", "gate: sequence lanes", "gate: level", "pre-lock", "watchdog",
		"pause", "lock", "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume"}
	backWrites = []string{"take over", "gate: routers probed", "gate: sequence lanes", "gate: stray writes", "gate: level", "pre-lock", "watchdog",
		"pause", "close", "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume"}
)

// DryRun takes the gates that only read, in the order of the switch, and lists
// every other step as not run. It stops at nothing: each gate's outcome is in the
// report, and the first refusal is the error.
func DryRun(ctx context.Context, cfg Config, d Direction) (report Report, first error) {
	report = Report{Outcome: Nothing, Databases: cfg.databaseNames(), Steps: []Step{}}
	w, err := openWindow(ctx, cfg, d, &report)
	defer w.close(ctx)
	if err != nil {
		report.Outcome = Refused
		return report, err
	}
	checks := []gate{{name: "gate: blockers", run: func(ctx context.Context) error { return w.gateBlockers(ctx, d) }}, {name: "gate: routers", run: w.describeRouters}}
	if d == Forward {
		checks = append([]gate{{name: "gate: verified", run: w.gateVerified}, {name: "gate: copied", run: w.gateCopied}}, checks...)
	}
	for _, c := range checks {
		s := Step{Name: c.name, Started: time.Now(), Outcome: "ok"}
		if err := c.take(ctx); err != nil {
			s.Outcome = "failed"
			if first == nil {
				first, report.Outcome = err, Refused
				reason := err.Error()
				report.Reason = &reason
			}
		}
		s.MS = float64(time.Since(s.Started).Microseconds()) / 1000
		report.Steps = append(report.Steps, s)
	}
	writes := forwardWrites
	if d == Back {
		writes = backWrites
	}
	for _, name := range writes {
		report.Steps = append(report.Steps, Step{Name: name, Started: time.Now(), Outcome: needsWrite})
	}
	return report, first
}

// describeRouters refuses a router that cannot be driven, without touching it.
func (w *window) describeRouters(ctx context.Context) error {
	return w.routers(func(i int) error {
		desc, err := w.cfg.Routers[i].Describe(ctx)
		if err != nil {
			return err
		}
		return refuseFindings(desc.Findings)
	})
}

func refuseFindings(found []migrate.Finding) error {
	for _, f := range found {
		if f.Severity == migrate.SeverityError {
			return migrate.Refuse(f.ID, f.Object, f.Message, "mend the router's configuration, then run the command again")
		}
	}
	return nil
}
