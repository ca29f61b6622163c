package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/demo"
	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/migrate"
)

func newDemo(a *app) *cobra.Command {
	o := demo.Options{Rows: 200_000, Shards: 8}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole journey on throw-away servers under a live writer",
		Long: help(`Starts a source, two databases and PgBouncer on free loopback ports in temporary folders,
loads rows, lets a writer work through PgBouncer that keeps a ledger of every write it was
acknowledged, and runs all phases: plan, prepare, install, catchup, backfill, verify,
cutover, rollback and cutover again. Then it compares the ledger with the databases, row by
row. Everything it started is gone afterwards, also when it is stopped. With --keep the
servers and the ledger stay after a journey that reached its end, and how to reach, try
and remove them is printed.

Needs PgBouncer and PostgreSQL server programs; without these, or with --image, the servers
run in containers of docker or podman.`,
			`  shardctl demo
  shardctl demo --rows 1000000 --shards 480
  shardctl demo --keep
  shardctl demo --image postgres:17-alpine
  shardctl demo --sabotage lose      # damages one row at the end: must fail
  shardctl demo -o json | jq .pauses_ms`, "3"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	numberVar(f, &o.Rows, "rows", 1000, mostRows, "rows to load")
	numberVar(f, &o.Shards, "shards", 4, migrate.MaxShards, "logical shards")
	f.BoolVar(&o.Keep, "keep", false, "leave servers, spec and ledger when it is over, and print where they are")
	f.StringVar(&o.Sabotage, "sabotage", "", "damage one row at the end: lose, double or misplace")
	f.StringVar(&o.Image, "image", "", "run the servers in containers of this image (default: server programs of this machine, else "+demo.DefaultImage+")")
	return cmd
}

func (a *app) demo(ctx context.Context, o demo.Options) error {
	if o.Sabotage != "" && !slices.Contains([]string{demo.Lose, demo.Double, demo.Misplace}, o.Sabotage) {
		return migrate.Usage("usage.flag", "--sabotage", fmt.Sprintf("%q is none of lose, double, misplace", o.Sabotage), "")
	}
	o.Run = a.inner
	o.Phase = func(name string) { fmt.Fprintf(a.err, "==> %s\n", name) }
	result, err := demo.Run(ctx, o)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := a.print(result, func(w io.Writer) { printDemo(w, result) }); err != nil {
		return err
	}
	if !result.Clean() {
		return reported{&migrate.Failure{Code: "demo.differences", Message: "the databases differ from the ledger", Exit: migrate.ExitDifferences}}
	}
	return nil
}

// interrupted is the error of a demo that INT or TERM ended: what its commands said
// when they were stopped is of no interest.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	f := &migrate.Failure{Code: "interrupted", Message: "stopped, everything it started is gone", Exit: migrate.ExitInterrupted}
	if errors.Is(err, demo.ErrLeft) {
		f.Code, f.Message, f.Err = "demo.left", "stopped", err
	}
	return f
}

// inner runs one command line in this process; its result is not printed, its
// progress is.
func (a *app) inner(ctx context.Context, args ...string) error {
	_, err := a.captured(ctx, args...)
	return err
}

// captured is inner that gives what was printed.
func (a *app) captured(ctx context.Context, args ...string) (string, error) {
	var result bytes.Buffer
	if a.NoProgress {
		args = append(args, "--no-progress")
	}
	in := &app{out: &result, err: a.err}
	root := newRoot(in)
	root.SetArgs(args)
	root.SetOut(&result)
	root.SetErr(in.err)
	err := root.ExecuteContext(ctx)
	if err != nil {
		err = errors.Join(err, describe(result.String()))
	}
	return result.String(), err
}

// describe keeps what a failed command had printed.
func describe(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}

func printDemo(w io.Writer, r demo.Result) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-28s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w)
	line("rows loaded", "%d", r.Rows)
	line("writes acknowledged", "%d (%.0f/s)", r.Acknowledged, r.Rates["writes_per_s"])
	line("backfill", "%.0f rows/s", r.Rates["backfill_rows_per_s"])
	line("verify", "%.0f rows/s", r.Rates["verify_rows_per_s"])
	pauses := make([]string, len(r.PausesMS))
	for i, p := range r.PausesMS {
		pauses[i] = fmt.Sprintf("%.0f ms", p)
	}
	line("cutover, rollback, cutover", "pauses as the writer saw them: %s", strings.Join(pauses, ", "))
	line("failed requests", "%d", r.FailedRequests)
	line("lost", "%d", r.Lost)
	line("doubled", "%d", r.Doubled)
	line("misplaced", "%d", r.Misplaced)
	line("took", "%.0f s", r.Seconds)
	for _, e := range r.Examples {
		fmt.Fprintln(w, "  "+e)
	}
	if r.Kept != nil {
		printKept(w, r.Kept)
	}
}

// printKept says where a kept demo is, what to try and how to end it.
func printKept(w io.Writer, p *demo.Place) {
	fmt.Fprintf(w, "\nsource     %s\n", p.Source)
	for i, d := range p.Databases {
		fmt.Fprintf(w, "db%d        %s\n", i, d)
	}
	fmt.Fprintf(w, "pooler     %s\nspec       %s\nledger     %s\n\ntry:\n", p.Pooler, p.Spec, p.Ledger)
	for _, args := range []string{"status", "route " + p.Key, "topology show", "rollback --yes"} {
		fmt.Fprintf(w, "  shardctl %s -f %s\n", args, localpg.ShellWord(p.Spec))
	}
	fmt.Fprintf(w, "  psql %s -c 'SELECT count(*) FROM block'\n\nend the servers and remove everything:\n  %s\n", localpg.ShellWord(p.Pooler), p.Stop)
}
