package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/rehearsal"
	"github.com/shardctl/shardctl/migrate"
)

func newRehearse(a *app) *cobra.Command {
	var rows int
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Run the whole journey of a spec on throw-away servers of this machine",
		Long: help(`Takes the schema of the spec's source, and with --rows a sample of each table's rows, to a
throw-away server on this machine, starts servers for the spec's databases and a pooler in
the place of each of its own, and runs the journey there: plan, prepare, install, catchup,
backfill, verify, cutover, rollback and cutover again. Prints what plan finds and how long
each phase took. Of the real servers it reads the source only; it connects to no database
and no router of the spec. Everything it started is gone afterwards.

Sizes, load and the pause on the real servers are not what is rehearsed: the schema, the
keys and the spec are. Needs PostgreSQL server and client programs, and PgBouncer where the
spec has one.`,
			`  shardctl rehearse
  shardctl rehearse --rows 10000
  shardctl rehearse --rows 1000 -o json | jq .phases`, "3", "4", "7"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rehearse(cmd.Context(), rows) },
	}
	numberVar(cmd.Flags(), &rows, "rows", 0, mostRows, "rows to take of each table, with their parents; everywhere tables are taken whole")
	return cmd
}

// rehearsed is what rehearse prints.
type rehearsed struct {
	Rows     int64             `json:"rows"`
	Findings []migrate.Finding `json:"findings"`
	Phases   []rehearsedPhase  `json:"phases"`
	PausesMS []float64         `json:"pauses_ms"` // for which the routers were held
}

type rehearsedPhase struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
	Outcome string  `json:"outcome"` // ok or failed
}

func (a *app) rehearse(ctx context.Context, rows int) (err error) {
	spec, err := migrate.Load(a.File)
	if err != nil {
		return err
	}
	w, err := rehearsal.Build(ctx, rehearsal.Options{Spec: spec, Rows: rows, Phase: func(name string) { fmt.Fprintf(a.err, "==> %s\n", name) }})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return err
	}
	local := &app{global: a.global, out: io.Discard, err: a.err, log: a.log}
	local.File, local.Yes = w.SpecFile, true
	r := &rehearsedJourney{app: local, doc: rehearsed{Rows: w.Rows, Findings: []migrate.Finding{}, Phases: []rehearsedPhase{}, PausesMS: []float64{}}}
	journeyErr := r.run(ctx, len(spec.Topology) > 0)
	if err := a.print(r.doc, func(w io.Writer) { printRehearsed(w, r.doc) }); err != nil {
		return err
	}
	if journeyErr != nil && a.Output == "json" {
		return reported{journeyErr}
	}
	return journeyErr
}

// rehearsedJourney goes through the phases and keeps the time.
type rehearsedJourney struct {
	*app
	doc rehearsed
}

func (r *rehearsedJourney) run(ctx context.Context, routed bool) error {
	if err := r.plan(ctx); err != nil {
		return err
	}
	phases := [][]string{{"prepare"}, {"install"}}
	if routed {
		phases = [][]string{{"prepare"}, {"topology", "push"}, {"install"}}
	}
	for _, args := range phases {
		if _, err := r.step(ctx, args...); err != nil {
			return err
		}
	}
	return r.withCatchup(ctx, func(ctx context.Context) error {
		for _, phase := range []string{"backfill", "verify", "cutover", "rollback", "verify", "cutover"} {
			text, err := r.step(ctx, phase)
			if err != nil {
				return err
			}
			var report cutover.Report
			if json.Unmarshal([]byte(text), &report) == nil && report.Pause.Router != nil {
				r.doc.PausesMS = append(r.doc.PausesMS, *report.Pause.Router)
			}
		}
		return nil
	})
}

// plan keeps the findings, also of a plan that refuses.
func (r *rehearsedJourney) plan(ctx context.Context) error {
	text, err := r.step(ctx, "plan")
	var plan migrate.Plan
	if json.Unmarshal([]byte(text), &plan) == nil && plan.Findings != nil {
		r.doc.Findings = plan.Findings
	}
	if err != nil && plan.Blocked() {
		return migrate.Refuse("plan.blocked", "rehearsal", "findings of severity error block the migration", "mend them on the real servers, or in the spec, and rehearse again")
	}
	return err
}

// step runs one command on the rehearsal's servers.
func (r *rehearsedJourney) step(ctx context.Context, args ...string) (string, error) {
	p := rehearsedPhase{Phase: args[0], Outcome: "ok"}
	fmt.Fprintf(r.err, "==> %s\n", p.Phase)
	start := time.Now()
	text, err := r.captured(ctx, append(args, "--file", r.File, "--output", "json", "--yes")...)
	if p.Seconds = time.Since(start).Seconds(); err != nil {
		p.Outcome = "failed"
		err = fmt.Errorf("rehearsal of %s: %w", p.Phase, err)
	}
	r.doc.Phases = append(r.doc.Phases, p)
	return text, err
}

func printRehearsed(w io.Writer, doc rehearsed) {
	printPlan(w, migrate.Plan{Findings: doc.Findings})
	fmt.Fprintf(w, "\nrows taken %d\n", doc.Rows)
	for _, p := range doc.Phases {
		fmt.Fprintf(w, "%-10s %8.1f s  %s\n", p.Phase, p.Seconds, p.Outcome)
	}
	for _, ms := range doc.PausesMS {
		fmt.Fprintf(w, "routers held for %.0f ms\n", ms)
	}
}
