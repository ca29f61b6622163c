package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/store"
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
and the state, and catchup goes on. Afterwards there is no way back.

With --drop-source the rows of the sharded tables are removed from the source as well, at
once or later on a migration that was completed before: TRUNCATE of all of them, without
CASCADE, in one transaction that gives way to the application. The empty tables and their
fences stay, everywhere tables stay as they are. Refused, before anything is changed, while
a foreign key of another table, a trigger on TRUNCATE or a publication would carry it on, or
rows without a key were left to the source.

With --source-lost the databases are completed from their own copies of the state, because
the source is dead for good and you say so: what they own is opened, reverse capture is
removed, each owns its copies of the everywhere tables from then on, and the routers lead to
the databases. What the source alone knew is lost: writes to everywhere tables that were not
applied yet, and with a rollback under way whether it had been committed. Refused if the
source answers, or if a database's copy says that the source owns shards.`,
			`  shardctl complete --yes
  shardctl complete --drop-source --yes
  shardctl complete --source-lost --yes`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.DropSource && o.SourceLost:
				return migrate.Usage("usage.flag", "--drop-source, --source-lost", "exclude each other", "a lost source has no rows to remove")
			case o.SourceLost:
				return a.sourceLost(cmd.Context())
			}
			return a.complete(cmd.Context(), o.DropSource)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.DropSource, "drop-source", false, "remove the moved rows from the source as well")
	f.BoolVar(&o.SourceLost, "source-lost", false, "the source is lost for good: complete from the databases' own copies of the state")
	return cmd
}

func (a *app) complete(ctx context.Context, drop bool) error {
	s, err := a.open(ctx, "complete")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if s.completed(drop) {
		return s.finished(nothingToDo)
	}
	allowed, question := []migrate.Phase{migrate.CutOver}, "End the rollback window of "+s.spec.Migration+"? There is no way back afterwards."
	if drop {
		allowed = append(allowed, migrate.Completed)
		question = "End the rollback window of " + s.spec.Migration + " and remove the moved rows from the source? There is no way back afterwards."
	}
	if err := s.require("complete", allowed...); err != nil {
		return err
	}
	if drop {
		if err := s.checkDrop(ctx); err != nil {
			return err
		}
	}
	if err := a.confirm("complete", question); err != nil {
		return err
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	if err := s.reload(ctx); err != nil { // another process may have rolled back since
		return err
	}
	if err := s.require("complete", allowed...); err != nil {
		return err
	}
	if s.phase() != migrate.Completed {
		if err := s.requireSettled(ctx, cutover.Forward); err != nil {
			return err
		}
		if err := s.endWindow(ctx); err != nil {
			return err
		}
	}
	if drop {
		if err := s.dropSource(ctx); err != nil {
			return err
		}
	}
	return s.finished("done")
}

// completed reports whether nothing is left to do.
func (s *session) completed(drop bool) bool {
	return s.phase() == migrate.Completed && (!drop || s.migration.SourceDroppedAt != nil)
}

func (s *session) endWindow(ctx context.Context) error {
	return s.journaled(ctx, "complete", func(ctx context.Context) error {
		keptOut, err := s.keepApplierOut(ctx, "complete")
		if err != nil {
			return err
		}
		defer keptOut()
		if err := s.removeReverse(ctx); err != nil {
			return err
		}
		if err := store.SetWindowEnd(ctx, s.source, s.spec.Migration, nil); err != nil {
			return err
		}
		return s.setPhase(ctx, migrate.Completed)
	})
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
