package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/doctor"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

type doctorOptions struct {
	Repair      bool
	Acknowledge bool
	Agree       []string
}

func newDoctor(a *app) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check every invariant, with the evidence; mend what can be mended safely",
		Long: help(`Checks capture, fences and guards, who owns what by every side's own word, positions, gaps,
ledgers, the registry, sequences, leases, log sizes, routers, quarantined keys and
verification, and prints what it saw. Reads only, but for its two flags.

--repair mends, under the operator's lease, what can be mended safely, each after a question
and with a line in the journal: fences that have to stand, first of all on a source that
went back in time; capture that was stopped at the log's hard limit, where no gap stands;
and the keys that --agree gives up. --acknowledge-ddl accepts captured tables as they are
now, after a change that was applied on all sides; verification has to be run again.

Exits with 4 if anything is broken, with 1 if a check could not look.`,
			`  shardctl doctor
  shardctl doctor -o json | jq '.checks[] | select(.state != "ok")'
  shardctl doctor --acknowledge-ddl --yes
  shardctl doctor --repair --yes
  shardctl doctor --repair --agree 'public.block:["17"]'`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.Repair, "repair", false, "mend what can be mended safely")
	f.BoolVar(&o.Acknowledge, "acknowledge-ddl", false, "accept a change of captured tables that was applied on all sides")
	f.StringArrayVar(&o.Agree, "agree", nil, "with --repair: a quarantined key, TABLE:KEY, to give up as an agreed loss; repeats")
	return cmd
}

func (a *app) doctor(ctx context.Context, o doctorOptions) error {
	switch {
	case len(o.Agree) > 0 && !o.Repair:
		return migrate.Usage("usage.flag", "--agree", "it says what --repair may give up", "add --repair")
	case o.Repair && o.Acknowledge:
		return migrate.Usage("usage.flag", "--repair, --acknowledge-ddl", "one at a time", "acknowledge the change first, then repair")
	}
	if o.Repair || o.Acknowledge {
		if err := a.mayAsk("doctor"); err != nil {
			return err
		}
	}
	s, err := a.open(ctx, "doctor")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	var mended []doctor.Mend
	switch {
	case o.Acknowledge:
		err = s.acknowledgeDDL(ctx)
	case o.Repair:
		mended, err = s.repair(ctx, o.Agree)
	}
	if err != nil {
		return err
	}
	return s.examine(ctx, "doctor", func(_ context.Context, e *doctor.Exam) error { return s.printExam(e, mended) })
}

// examine looks at everything and hands what was found to fn, with the sessions open.
func (s *session) examine(ctx context.Context, purpose string, fn func(context.Context, *doctor.Exam) error) error {
	cfg := doctor.Config{Spec: s.spec, Source: s.source, Databases: map[string]*pgx.Conn{}, Silent: map[string]error{}}
	defer func() { closeAll(ctx, cfg.Databases) }()
	for _, t := range s.databaseTargets() {
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		conn, err := postgres.Connect(look, t, purpose)
		cancel()
		if err != nil {
			cfg.Silent[t.Name] = err
			continue
		}
		cfg.Databases[t.Name] = conn
	}
	routers, closeRouters, err := s.routers(ctx)
	defer closeRouters()
	cfg.Routers, cfg.RouterErr = routers, err
	e, err := doctor.Examine(ctx, cfg)
	if err != nil {
		return err
	}
	return fn(ctx, e)
}

// repair mends what it finds, under the operator's lease, and says what it did.
func (s *session) repair(ctx context.Context, agreed []string) (mended []doctor.Mend, err error) {
	if s.migration == nil {
		return nil, nil
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.reload(ctx); err != nil {
		return nil, err
	}
	err = s.examine(ctx, "doctor repair", func(ctx context.Context, e *doctor.Exam) error {
		mends := e.Mends()
		for _, key := range agreed {
			more, err := e.Agree(ctx, key)
			if err != nil {
				return err
			}
			mends = append(mends, more...)
		}
		for _, m := range mends {
			switch err := s.confirm("doctor --repair", m.Object+": "+m.Summary+"?"); {
			case isDeclined(err):
				continue
			case err != nil:
				return err
			}
			if err := s.mend(ctx, e, m); err != nil {
				return err
			}
			mended = append(mended, m)
		}
		return nil
	})
	return mended, errors.Join(err, s.reload(ctx))
}

// mend does one mend between two rows of the journal.
func (s *session) mend(ctx context.Context, e *doctor.Exam, m doctor.Mend) error {
	j := store.NewJournal(s.spec.Migration, "doctor --repair")
	if err := j.Record(ctx, s.source, m.ID, "started", m); err != nil {
		return err
	}
	err := e.Apply(ctx, m)
	outcome := "ok"
	if err != nil {
		outcome = "failed"
		err = fmt.Errorf("mend %s of %s: %w", m.ID, m.Object, err)
	}
	clean, cancel := postgres.Cleanup(ctx)
	defer cancel()
	return errors.Join(err, j.Record(clean, s.source, m.ID, outcome, m))
}

// examDocument is what doctor prints.
type examDocument struct {
	Migration string         `json:"migration"`
	Phase     migrate.Phase  `json:"phase"`
	Checks    []doctor.Check `json:"checks"`
	Mended    []doctor.Mend  `json:"mended"`
}

func (s *session) printExam(e *doctor.Exam, mended []doctor.Mend) error {
	doc := examDocument{Migration: s.spec.Migration, Phase: s.phase(), Checks: e.Checks, Mended: append([]doctor.Mend{}, mended...)}
	err := s.print(doc, func(w io.Writer) { printExam(w, doc) })
	switch broken, unseen := e.Count(doctor.Broken), e.Count(doctor.NotRun); {
	case err != nil:
		return err
	case broken > 0:
		return reported{migrate.Refuse("doctor.broken", "", fmt.Sprintf("%d checks are broken", broken), "")}
	case unseen > 0:
		return reported{migrate.Broken("doctor.not_run", "", fmt.Sprintf("%d checks could not look", unseen), "", errors.New("see the checks"))}
	}
	return nil
}

func printExam(w io.Writer, doc examDocument) {
	counts := map[doctor.State]int{}
	for _, m := range doc.Mended {
		fmt.Fprintf(w, "mended   %-18s %s: %s\n", m.ID, m.Object, m.Summary)
	}
	for _, c := range doc.Checks {
		counts[c.State]++
		fmt.Fprintf(w, "%-8s %-18s %s: %s\n", c.State, c.ID, c.Object, c.Evidence)
		if c.Fix != nil {
			printFix(w, *c.Fix)
		}
	}
	fmt.Fprintf(w, "%d ok, %d warnings, %d broken, %d not run\n", counts[doctor.OK], counts[doctor.Warning], counts[doctor.Broken], counts[doctor.NotRun])
}

// printFix prints the first lines of a fix: SQL for many places is long.
func printFix(w io.Writer, fix string) {
	const shown = 3
	lines := strings.Split(fix, "\n")
	for _, line := range lines[:min(len(lines), shown)] {
		fmt.Fprintf(w, "           fix: %s\n", line)
	}
	if len(lines) > shown {
		fmt.Fprintf(w, "           and %d more lines: -o json has all\n", len(lines)-shown)
	}
}
