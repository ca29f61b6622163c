package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

type verifyOptions struct {
	Mode    string
	Samples int
	Repair  bool
}

func newVerify(a *app) *cobra.Command {
	o := verifyOptions{Samples: 1000}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the databases with the source, row by row",
		Long: help(`Compares contents and placement of every row, while both sides are written. A difference
counts only when it cannot be explained by what is still in the log. Finds missing, extra
and different rows, rows at the wrong location and rows at two locations. Cutover demands a
fresh clean full pass. --repair hands the keys of differences to the log; only a later clean
pass proves that they are mended.`,
			`  shardctl verify
  shardctl verify --mode sample --samples 10000
  shardctl verify --repair --yes`, "3", "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if given(cmd, "samples") == "--samples" && o.Mode != string(verify.Sample) { // its variable may rest
				return migrate.Usage("usage.flag", "--samples", "it says how large a sample is", "add --mode sample")
			}
			return a.verify(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Mode, "mode", string(verify.Full), "full or sample")
	numberVar(f, &o.Samples, "samples", 1, mostRows, "with --mode sample: how many points of the key distribution")
	f.BoolVar(&o.Repair, "repair", false, "hand the keys of differences to the log")
	return cmd
}

func (a *app) verify(ctx context.Context, o verifyOptions) error {
	if o.Mode != string(verify.Full) && o.Mode != string(verify.Sample) {
		return migrate.Usage("usage.flag", "--mode", fmt.Sprintf("%q is neither full nor sample", o.Mode), "")
	}
	s, err := a.open(ctx, "verify")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.require("verify", migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack); err != nil {
		return err
	}
	if o.Repair {
		if err := a.confirm("verify", "Hand the keys of all differences to the log, to be read and applied again?"); err != nil {
			return err
		}
	}
	ctx, _, release, err := s.lease(ctx, store.Verifier)
	if err != nil {
		return err
	}
	defer release()
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	v, closeVerifier := s.verifier(l)
	defer closeVerifier()
	var result *verify.Result
	err = s.journaled(ctx, "verify", func(ctx context.Context) (err error) {
		if result, err = s.pass(ctx, v, o); err != nil || !o.Repair {
			return err
		}
		_, err = v.Repair(ctx, s.repairer(l))
		return err
	})
	if err != nil {
		return err
	}
	return s.printVerify(result)
}

func (s *session) pass(ctx context.Context, v *verify.Verifier, o verifyOptions) (*verify.Result, error) {
	if o.Mode == string(verify.Sample) {
		return v.Sample(ctx, o.Samples)
	}
	return v.Full(ctx)
}

// verifier makes a verifier with a progress bar.
func (s *session) verifier(l *layout.Layout) (*verify.Verifier, func()) {
	b := s.bar(-1, "verify")
	cfg := verify.Config{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), Observe: func(e verify.Event) {
		switch e.Kind {
		case verify.Reading:
			b.say("verify " + e.Table)
			b.total(max(e.Estimated, e.Rows))
			b.set(e.Rows)
		case verify.Retrying:
			s.log.Warn().Str("table", e.Table).Str("reason", e.Reason).Msg("verify tries again")
		}
	}}
	if s.spec.Source.ReadDSN != "" {
		cfg.Read = postgres.Target{Name: "replica", DSN: s.spec.Source.ReadDSN}
	}
	v := verify.New(cfg)
	return v, func() { b.finish(); v.Close() }
}

func (s *session) printVerify(r *verify.Result) error {
	err := s.print(r, func(w io.Writer) {
		for _, d := range r.Differences {
			fmt.Fprintf(w, "%-15s %s key (%s) on %s.%s", d.Kind, d.Table, strings.Join(d.Key, ", "), d.Database, d.Schema)
			if len(d.Columns) > 0 {
				fmt.Fprintf(w, " columns %s", strings.Join(d.Columns, ", "))
			}
			fmt.Fprintln(w)
		}
		if r.Truncated {
			fmt.Fprintln(w, "there are more differences than are listed")
		}
		fmt.Fprintf(w, "%s: %d rows compared (%.1f %%), %d differences, %d unsettled", r.State, r.RowsCompared, r.Coverage*100, len(r.Differences), r.Unsettled)
		if r.Mode == verify.Sample {
			fmt.Fprintf(w, "; would have found a rate of %.5f of damaged rows with %.0f %% confidence", r.Detects.Rate, r.Detects.Confidence*100)
		}
		if r.Reason != "" {
			fmt.Fprintf(w, "; %s", r.Reason)
		}
		fmt.Fprintln(w)
	})
	switch {
	case err != nil:
		return err
	case len(r.Differences) > 0 || r.State == verify.Differences:
		return reported{&migrate.Failure{Code: "verify.differences", Message: "differences found", Exit: migrate.ExitDifferences}}
	case r.State == verify.Partial && r.Mode == verify.Full:
		return reported{migrate.Refuse("verify.partial", "", "the pass is partial: "+r.Reason, "run shardctl verify again")}
	}
	return nil
}
