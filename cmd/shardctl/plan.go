package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/preflight"
	"github.com/shardctl/shardctl/migrate"
)

func newPlan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Show every preflight finding and every step, and change nothing",
		Long: help(`Looks at the source, every database and every router, and prints what would stop the
migration or bend its rows, with the SQL that mends it, and then every step of every
phase with its SQL and its undo. Reads only.`,
			`  shardctl plan
  shardctl plan -o json | jq '.findings[] | select(.severity == "error")'`, "4"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := migrate.Load(a.File)
			if err != nil {
				return err
			}
			found, survey, err := preflight.Run(cmd.Context(), spec)
			defer survey.Close(cmd.Context())
			if err != nil {
				return err
			}
			routers, err := routerFindings(cmd.Context(), spec)
			if err != nil {
				return err
			}
			plan := migrate.Plan{Findings: append(append([]migrate.Finding{}, found...), routers...), Steps: []migrate.Step{}}
			if survey.Layout != nil {
				if plan.Steps, err = steps(cmd.Context(), survey); err != nil {
					return err
				}
			}
			if err := a.print(plan, func(w io.Writer) { printPlan(w, plan) }); err != nil {
				return err
			}
			if plan.Blocked() {
				return reported{migrate.Refuse("plan.blocked", "", "findings of severity error block the migration", "")}
			}
			return nil
		},
	}
}

func printPlan(w io.Writer, plan migrate.Plan) {
	for _, f := range plan.Findings {
		fmt.Fprintf(w, "%-7s %-24s %s: %s\n", f.Severity, f.ID, f.Object, f.Message)
		if f.Fix != nil {
			fmt.Fprintf(w, "        fix: %s\n", *f.Fix)
		}
	}
	if len(plan.Findings) == 0 {
		fmt.Fprintln(w, "no findings")
	}
	phase := ""
	for _, s := range plan.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(w, "\n%s\n", phase)
		}
		fmt.Fprintf(w, "  - %s\n", s.Summary)
	}
	if len(plan.Steps) > 0 {
		fmt.Fprintln(w, "\nThe SQL of each step, with its undo: shardctl plan -o json")
	}
	if plan.Blocked() {
		fmt.Fprintln(w, "\nblocked: mend the errors above, then run shardctl plan again")
	}
}
