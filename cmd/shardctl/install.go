package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

func newInstall(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "install",
		Short: "Record every write on the source's tables, one table at a time",
		Long: help(`Makes the audit log, its triggers on the tables and their partitions, the dormant fences
on the source, and the reverse log on the databases. Each table is locked against writers
for the moment of creating its triggers only; autovacuum is sent away first. What is there
already stays, so the command can be killed and run again.`,
			`  shardctl install
  shardctl install --log-level info`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd.Context()) },
	}
}

func (a *app) install(ctx context.Context) error {
	s, err := a.open(ctx, "install")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	switch s.phase() {
	case migrate.Installed, migrate.Backfilling, migrate.Backfilled:
		return s.finished(nothingToDo)
	}
	if err := s.require("install", migrate.Prepared); err != nil {
		return err
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	conns, err := s.databases(ctx, "install")
	if err != nil {
		return err
	}
	defer closeAll(ctx, conns)
	err = s.journaled(ctx, "install", func(ctx context.Context) error {
		for _, d := range s.spec.Databases {
			if err := target.Adopt(ctx, conns[d.Name], l, d.Name); err != nil {
				return err
			}
		}
		if err := auditlog.Install(ctx, s.captureEnv(l)); err != nil {
			return err
		}
		if err := store.SetInstallLSN(ctx, s.source, s.spec.Migration); err != nil {
			return err
		}
		return s.setPhase(ctx, migrate.Installed)
	})
	if err != nil {
		return err
	}
	return s.finished("done")
}

func (s *session) captureEnv(l *layout.Layout) auditlog.Env {
	return auditlog.Env{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), Observe: func(i auditlog.Installed) {
		s.log.Info().Str("side", i.Side).Str("table", i.Table).Bool("changed", i.Changed).Msg("capture stands")
	}}
}
