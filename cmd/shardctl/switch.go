package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// switchOptions are the flags of cutover and rollback.
type switchOptions struct {
	Databases []string
	MaxPause  time.Duration
	DryRun    bool
	Extend    time.Duration
}

func (o *switchOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	namesVar(f, &o.Databases, "database", "only the named databases (may be repeated; commas)")
	durationVar(f, &o.MaxPause, "max-pause", migrate.LeastPause, migrate.LongestPause, "longest time that clients may wait (default: the spec's)")
	f.BoolVar(&o.DryRun, "dry-run", false, "list the gates and steps; change nothing")
}

func newCutover(a *app) *cobra.Command {
	var o switchOptions
	cmd := &cobra.Command{
		Use:   "cutover",
		Short: "Switch traffic from the source to the databases",
		Long: help(`Holds the routers, refuses new writers on the source, waits for those in flight, drains,
compares what is left, moves ownership in one commit, opens the databases, flips the
routers and releases them. If that cannot be done within --max-pause before the commit,
everything is put back. After the commit the command goes forward only; run it again if
it was killed.`,
			`  shardctl cutover --dry-run
  shardctl cutover --yes
  shardctl cutover --yes --database db0     # its shards alone; the source keeps the rest
  shardctl cutover --yes --max-pause 1s -o json
  shardctl cutover --extend 4h`, "4", "5", "6", "7"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := apart(cmd, "extend", "it moves the end of the rollback window and nothing else", "database", "max-pause", "dry-run"); err != nil {
				return err
			}
			if given(cmd, "extend") != "" {
				return a.extend(cmd.Context(), o.Extend)
			}
			return a.turn(cmd.Context(), cutover.Forward, o)
		},
	}
	o.addFlags(cmd)
	durationVar(cmd.Flags(), &o.Extend, "extend", time.Second, migrate.LongestDuration, "move the end of the rollback window by this much, and do nothing else")
	return cmd
}

func newRollback(a *app) *cobra.Command {
	var o switchOptions
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Switch traffic back to the source, with everything written since",
		Long: help(`Holds the routers, closes every database, drains what was written there to the source,
compares what is left, gives ownership back in one commit, flips the routers and releases
them. If that cannot be done within --max-pause before the commit, the databases are
opened again.`,
			`  shardctl rollback --dry-run
  shardctl rollback --yes
  shardctl rollback --yes --database db0,db1
  shardctl rollback --yes -o json`, "4", "5", "6", "7"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.turn(cmd.Context(), cutover.Back, o) },
	}
	o.addFlags(cmd)
	return cmd
}

// turn runs a switch in either direction.
func (a *app) turn(ctx context.Context, d cutover.Direction, o switchOptions) error {
	s, err := a.open(ctx, string(d))
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.knownDatabases(o.Databases); err != nil {
		return err
	}
	allowed := []migrate.Phase{migrate.Backfilled, migrate.RolledBack, migrate.CutOver, migrate.PartlyCutOver}
	if d == cutover.Back {
		allowed = []migrate.Phase{migrate.CutOver, migrate.PartlyCutOver, migrate.RolledBack}
	}
	if err := s.require(string(d), allowed...); err != nil {
		return err
	}
	if o.MaxPause > 0 {
		s.spec.Cutover.MaxPause = o.MaxPause // the routers judge their timeouts by it too
	}
	cfg, closeParts, err := s.switchConfig(ctx, d, o.Databases)
	defer closeParts()
	if err != nil {
		return err
	}
	if o.DryRun {
		report, err := cutover.DryRun(ctx, cfg, d)
		return s.printReport(d, o, report, err)
	}
	if err := a.confirm(string(d), s.question(d, o.Databases)); err != nil {
		return err
	}
	held, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	var report cutover.Report
	if d == cutover.Forward {
		report, err = cutover.Cutover(held, cfg)
	} else {
		report, err = cutover.Rollback(held, cfg)
	}
	if err != nil && report.Outcome == cutover.Refused {
		err = whyStopped(ctx, held, err)
	}
	return s.printReport(d, o, report, err)
}

// whyStopped puts in the place of what a gate came upon, because its context had
// ended, the reason for that end: a signal, or a lease that another process took.
func whyStopped(ctx, held context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return stoppedBySignal(err)
	case errors.Is(context.Cause(held), store.ErrTerm) && migrate.ExitCode(err) == migrate.ExitError:
		return &migrate.Failure{Code: "lease.lost", Object: "lease operator", Exit: migrate.ExitLeaseHeld,
			Message: "this process was held up, and another one took its lease", Hint: "see shardctl status", Err: err}
	}
	return err
}

func (s *session) question(d cutover.Direction, only []string) string {
	if d == cutover.Back && len(only) == 0 {
		return fmt.Sprintf("Move all shards of migration %s back to the source?", s.spec.Migration)
	}
	count := 0
	if len(only) == 0 {
		only = s.spec.DatabaseNames()
	}
	for _, name := range only {
		count += len(s.spec.Shards.ShardsOf(name))
	}
	if d == cutover.Back {
		return fmt.Sprintf("Move %d shards of migration %s from %s back to the source?", count, s.spec.Migration, strings.Join(only, ", "))
	}
	return fmt.Sprintf("Move %d shards of migration %s to %s?", count, s.spec.Migration, listed(only))
}

// listed names a few things, or counts them.
func listed(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%d databases", len(names))
	}
	return strings.Join(names, ", ")
}

// knownDatabases refuses names that the spec does not have.
func (s *session) knownDatabases(names []string) error {
	for _, name := range names {
		if _, known := s.spec.Database(name); !known {
			return migrate.Usage("database.unknown", "--database "+name, "the spec has no such database", "name some of "+strings.Join(s.spec.DatabaseNames(), ", "))
		}
	}
	return nil
}

func (s *session) printReport(d cutover.Direction, o switchOptions, report cutover.Report, err error) error {
	report.Next = nextAfter(d, o, report)
	if err != nil {
		report.Next = o.again(d)
	}
	if printErr := s.print(report, func(w io.Writer) { printReport(w, d, o, report) }); printErr != nil {
		return printErr
	}
	if err != nil && s.Output == "json" {
		return reported{err}
	}
	return err
}

func nextAfter(d cutover.Direction, o switchOptions, r cutover.Report) string {
	switch {
	case r.Outcome != cutover.Done && r.Outcome != cutover.Nothing:
		return o.again(d)
	case r.Phase == migrate.PartlyCutOver:
		return "shardctl verify, then shardctl cutover for the rest; or shardctl rollback"
	case d == cutover.Forward:
		return "shardctl verify, then shardctl complete; or shardctl rollback"
	default:
		return "shardctl cutover, or shardctl abort"
	}
}

// again is the command itself, without --dry-run: one that was for some databases must not
// be followed by one for all.
func (o switchOptions) again(d cutover.Direction) string {
	command := "shardctl " + string(d)
	if len(o.Databases) > 0 {
		command += " --database " + strings.Join(o.Databases, ",")
	}
	if o.MaxPause > 0 {
		command += " --max-pause " + migrate.SpellDuration(o.MaxPause)
	}
	return command
}

func printReport(w io.Writer, d cutover.Direction, o switchOptions, r cutover.Report) {
	if r.Outcome == cutover.Nothing {
		fmt.Fprintln(w, nothingToDo)
		return
	}
	unrun := 0
	for _, s := range r.Steps {
		took := fmt.Sprintf("%.1f ms", s.MS)
		if s.Outcome == cutover.NeedsWrite {
			unrun++
			took = "-"
		}
		fmt.Fprintf(w, "  %-22s %12s  %s%s\n", s.Name, took, s.Outcome, lastTime(s))
	}
	switch {
	case r.Outcome == cutover.Planned:
		fmt.Fprintf(w, "dry run of %s: no gate refuses, %d steps need write and were not run, nothing was changed", d, unrun)
	case o.DryRun:
		fmt.Fprintf(w, "dry run of %s: %s, nothing was changed", d, r.Outcome)
	default:
		fmt.Fprintf(w, "%s %s", d, r.Outcome)
	}
	if r.Pause.Router != nil {
		fmt.Fprintf(w, ", routers held for %.0f ms", *r.Pause.Router)
	}
	fmt.Fprintf(w, "; next: %s\n", r.Next)
}

// lastTime words what a dry run knows of a step.
func lastTime(s cutover.Step) string {
	if s.Expected == nil {
		return ""
	}
	return fmt.Sprintf(", the last time %.1f ms", *s.Expected)
}

// extend moves the end of the rollback window.
func (a *app) extend(ctx context.Context, by time.Duration) error {
	s, err := a.open(ctx, "extend")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.require("cutover --extend", migrate.CutOver, migrate.PartlyCutOver); err != nil {
		return err
	}
	end := time.Now()
	if s.migration.WindowEndsAt != nil && s.migration.WindowEndsAt.After(end) {
		end = *s.migration.WindowEndsAt
	}
	end = end.Add(by)
	if err := store.SetWindowEnd(ctx, s.source, s.spec.Migration, &end); err != nil {
		return err
	}
	return s.print(map[string]any{"window_ends_at": end}, func(w io.Writer) {
		fmt.Fprintf(w, "the rollback window now ends at %s\n", end.Format(time.RFC3339))
	})
}
