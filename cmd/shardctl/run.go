package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// runnable are the phases' commands that `run` may go through.
var runnable = []string{"prepare", "install", "backfill", "verify", "cutover"}

func newRun(a *app) *cobra.Command {
	var until string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run all phases with their gates, up to a given one",
		Long: help(`Runs prepare, install, backfill, verify and cutover, each only if it is not done yet, and
keeps catch-up going meanwhile; a catchup that runs already is used. It stops at the first
phase that refuses. Complete is left to a person.`,
			`  shardctl run --until verify
  shardctl run --yes`, "3", "4", "5", "6", "7"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			last := slices.Index(runnable, until)
			if last < 0 {
				return migrate.Usage("usage.flag", "--until", fmt.Sprintf("%q is no phase of run", until), "one of prepare, install, backfill, verify, cutover")
			}
			if until == "cutover" {
				if err := a.confirm("run", "Run all phases, the cutover included?"); err != nil {
					return err
				}
			}
			return a.runAll(cmd.Context(), runnable[:last+1])
		},
	}
	cmd.Flags().StringVar(&until, "until", "cutover", "the last phase to run")
	return cmd
}

// runAll runs phases in order. From install on a catch-up runs beside them.
func (a *app) runAll(ctx context.Context, phases []string) error {
	for i, phase := range phases {
		if phase == "backfill" {
			if err := a.withCatchup(ctx, func(ctx context.Context) error { return a.runEach(ctx, phases[i:]) }); err != nil {
				return err
			}
			break
		}
		if err := a.runEach(ctx, phases[i:i+1]); err != nil {
			return err
		}
	}
	return a.status(ctx)
}

func (a *app) runEach(ctx context.Context, phases []string) error {
	for _, phase := range phases {
		args := []string{phase, "--file", a.File, "--yes"}
		if err := a.inner(ctx, args...); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
	}
	return nil
}

// withCatchup runs fn beside a catch-up: one that runs already, or one of its own.
func (a *app) withCatchup(ctx context.Context, fn func(context.Context) error) error {
	s, err := a.open(ctx, "run")
	if err != nil {
		return err
	}
	running, err := store.LeaseRunning(ctx, s.source, s.spec.Migration, store.Applier)
	s.close(ctx)
	if err != nil {
		return err
	}
	if running {
		return fn(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	live, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.inner(live, "catchup", "--file", a.File, "--no-progress"); live.Err() == nil {
			cancel(fmt.Errorf("catchup ended: %w", err)) // nothing may go on without it
		}
	}()
	err = fn(ctx)
	end()
	<-ended
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}
