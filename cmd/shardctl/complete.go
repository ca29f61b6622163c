package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

type completeOptions struct {
	DropSource bool
	SourceLost bool
}

func newComplete(a *app) *cobra.Command {
	var o completeOptions
	cmd := &cobra.Command{
		Use:   "complete",
		Short: "End the rollback window",
		Long: help(`Ends the rollback window: reverse capture is removed. The fences on the source and the
placement guards on the databases stay, so that a forgotten writer is refused. The rows on
the source stay too. Where the source goes on owning everywhere tables, so do its audit log
and the state, and catchup goes on. Afterwards there is no way back.`,
			`  shardctl complete --yes`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.DropSource || o.SourceLost {
				return migrate.Usage("usage.not_yet", "--drop-source, --source-lost", "not supported yet", "leave it out")
			}
			return a.complete(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.DropSource, "drop-source", false, "drop the moved rows on the source (not yet)")
	f.BoolVar(&o.SourceLost, "source-lost", false, "the source is lost for good (not yet)")
	return cmd
}

func (a *app) complete(ctx context.Context) error {
	s, err := a.open(ctx, "complete")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if s.phase() == migrate.Completed {
		return s.finished(nothingToDo)
	}
	if err := s.require("complete", migrate.CutOver); err != nil {
		return err
	}
	if err := a.confirm("complete", "End the rollback window of "+s.spec.Migration+"? There is no way back afterwards."); err != nil {
		return err
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	err = s.journaled(ctx, "complete", func(ctx context.Context) error {
		if err := s.stopApplier(ctx, "complete"); err != nil {
			return err
		}
		if err := s.removeReverse(ctx); err != nil {
			return err
		}
		if err := store.SetWindowEnd(ctx, s.source, s.spec.Migration, nil); err != nil {
			return err
		}
		return s.setPhase(ctx, migrate.Completed)
	})
	if err != nil {
		return err
	}
	return s.finished("done")
}

// removeReverse ends the reverse log on every database and, where no everywhere
// table goes on following the source, capture on the source.
func (s *session) removeReverse(ctx context.Context) error {
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	conns, err := s.databases(ctx, "complete")
	if err != nil {
		return err
	}
	defer closeAll(ctx, conns)
	for _, d := range s.spec.Databases {
		if err := s.handOverEverywhere(ctx, l, d.Name, conns[d.Name]); err != nil {
			return fmt.Errorf("complete on %s: %w", d.Name, err)
		}
		if err := auditlog.Uninstall(ctx, auditlog.DatabaseSide(l, d.Name), s.source, conns[d.Name]); err != nil {
			return fmt.Errorf("complete on %s: %w", d.Name, err)
		}
	}
	if s.followsSource(l) {
		return nil
	}
	return auditlog.Uninstall(ctx, auditlog.SourceSide(l), s.source, s.source)
}

// handOverEverywhere gives a database its copies of the everywhere tables, where
// the spec says so.
func (s *session) handOverEverywhere(ctx context.Context, l *layout.Layout, name string, conn *pgx.Conn) error {
	if s.spec.Complete.EverywhereOwner == store.OwnerSource || s.followsSource(l) {
		return nil
	}
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := store.ChangeControl(ctx, tx, s.spec.Migration); err != nil {
			return err
		}
		return target.OpenEverywhere(ctx, tx, l, name)
	})
}

// followsSource reports whether an everywhere table goes on being brought forward.
func (s *session) followsSource(l *layout.Layout) bool {
	everywhere := slices.ContainsFunc(l.Tables, func(t *layout.Table) bool { return t.Everywhere() })
	return everywhere && s.spec.Complete.EverywhereOwner == "source"
}
