package cutover

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// planned is a step of a switch in its place. Without run it writes, and a dry run only
// lists it.
type planned struct {
	name string
	run  func(context.Context) error
}

// course is the steps of a switch in their order.
func (w *window) course(d Direction) []planned {
	out := unrun("take over")
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
	out = append(out, unrun("pre-lock", "watchdog", "pause", shut, "drain", "sequences", "delta", "fence", "commit")...)
	return append(out, finishing()...)
}

// finishing is the steps that carry out what the source says of ownership.
func finishing() []planned { return unrun("open", "flip", "read back", "resume", "settle") }

// unrun are steps that write.
func unrun(names ...string) []planned {
	out := make([]planned, len(names))
	for i, name := range names {
		out[i].name = name
	}
	return out
}

// DryRun takes the gates that only read, in their places, and lists every other step as
// not run, each with how long it took the last time. It stops at nothing: each gate's
// outcome is in the report, and the first refusal is the error. The outcome is Planned if
// there is none, and Nothing, without steps, if the switch was done before.
func DryRun(ctx context.Context, cfg Config, d Direction) (report Report, first error) {
	report = Report{Outcome: Refused, Databases: cfg.databaseNames(), Steps: []Step{}}
	defer func() {
		if first != nil {
			reason := first.Error()
			report.Reason = &reason
		}
	}()
	w, err := openWindow(ctx, cfg, d, &report)
	defer w.close(ctx)
	if err != nil {
		return report, err
	}
	committed, ended, err := w.before(ctx, d)
	if err != nil {
		return report, err
	}
	if ended {
		report.Outcome = Nothing
		return report, nil
	}
	expected, err := store.StepTimes(ctx, w.side, cfg.migration(), string(d))
	if err != nil {
		return report, err
	}
	course := w.course(d)
	if committed {
		course = append(unrun("take over"), finishing()...)
	}
	for _, c := range course {
		s, err := c.dry(ctx, expected)
		report.Steps = append(report.Steps, s)
		if first == nil {
			first = err
		}
	}
	if first == nil {
		report.Outcome = Planned
	}
	return report, first
}

// before reports whether the switch was committed already, and whether nothing is left of
// it; then the report has the phase.
func (w *window) before(ctx context.Context, d Direction) (committed, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	s, err := w.observe(ctx)
	if err != nil {
		return false, false, err
	}
	all, none := s.owned(w.cfg.databaseNames())
	if committed = all; d == Back {
		committed = none
	}
	if ended = committed && w.ended(ctx, s); ended {
		w.rec.report.Phase = phaseOf(s.owners)
	}
	return committed, ended, nil
}

// dry takes a step as far as it only reads.
func (p planned) dry(ctx context.Context, expected map[string]float64) (Step, error) {
	s := Step{Name: p.name, Started: time.Now(), Outcome: NeedsWrite}
	if ms, known := expected[p.name]; known {
		s.Expected = &ms
	}
	if p.run == nil {
		return s, nil
	}
	s.Outcome = "ok"
	err := (gate{run: p.run}).take(ctx)
	if err != nil {
		s.Outcome = "failed"
	}
	s.MS = float64(time.Since(s.Started).Microseconds()) / 1000
	return s, err
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
