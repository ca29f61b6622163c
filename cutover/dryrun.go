package cutover

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// needsWrite is the outcome of a step that a dry run must not take.
const needsWrite = "not run: needs write"

// planned is a step of a switch in its place. Without run it writes, and a dry run only
// lists it.
type planned struct {
	name string
	run  func(context.Context) error
}

// course is the steps of a switch in their order.
func (w *window) course(d Direction) []planned {
	out := []planned{{name: "take over"}}
	for _, g := range w.checks(d) {
		out = append(out, planned{g.name, g.dry})
		if g.left != "" {
			out = append(out, planned{name: g.left})
		}
	}
	shut := "lock"
	if d == Back {
		shut = "close"
	}
	for _, name := range []string{"pre-lock", "watchdog", "pause", shut, "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume", "settle"} {
		out = append(out, planned{name: name})
	}
	return out
}

// DryRun takes the gates that only read, in their places, and lists every other step as
// not run, each with how long it took the last time. It stops at nothing: each gate's
// outcome is in the report, and the first refusal is the error.
func DryRun(ctx context.Context, cfg Config, d Direction) (report Report, first error) {
	report = Report{Outcome: Nothing, Databases: cfg.databaseNames(), Steps: []Step{}}
	w, err := openWindow(ctx, cfg, d, &report)
	defer w.close(ctx)
	if err != nil {
		report.Outcome = Refused
		return report, err
	}
	expected, err := store.StepTimes(ctx, w.side, cfg.migration(), string(d))
	if err != nil {
		report.Outcome = Refused
		return report, err
	}
	for _, c := range w.course(d) {
		s := Step{Name: c.name, Started: time.Now(), Outcome: needsWrite}
		if ms, known := expected[c.name]; known {
			s.Expected = &ms
		}
		if c.run != nil {
			s.Outcome = "ok"
			if err := (gate{run: c.run}).take(ctx); err != nil {
				s.Outcome = "failed"
				if first == nil {
					first, report.Outcome = err, Refused
					reason := err.Error()
					report.Reason = &reason
				}
			}
			s.MS = float64(time.Since(s.Started).Microseconds()) / 1000
		}
		report.Steps = append(report.Steps, s)
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
			way := "mend the router's configuration"
			if f.Fix != nil {
				way += " (" + *f.Fix + ")"
			}
			return migrate.Refuse(f.ID, f.Object, f.Message, way+", then run the command again")
		}
	}
	return nil
}
