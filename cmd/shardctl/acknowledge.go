package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/doctor"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// acknowledgeDDL accepts the captured tables as they are, once all sides are alike.
// Nothing may read or apply the log by the old columns meanwhile, so that it takes
// every role; a backfill that runs compares the columns with each chunk by itself.
func (s *session) acknowledgeDDL(ctx context.Context) error {
	allowed := []migrate.Phase{migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack}
	if err := s.require("doctor --acknowledge-ddl", allowed...); err != nil {
		return err
	}
	if err := s.confirm("doctor --acknowledge-ddl", "Was the change applied on the source and on every database?"); err != nil {
		return err
	}
	for _, role := range []store.Role{store.Operator, store.Applier, store.Verifier} {
		held, _, release, err := s.lease(ctx, role)
		if err != nil {
			return err
		}
		defer release()
		ctx = held
	}
	if err := s.reload(ctx); err != nil {
		return err
	}
	if err := s.require("doctor --acknowledge-ddl", allowed...); err != nil {
		return err
	}
	if err := s.examine(ctx, "doctor", func(_ context.Context, e *doctor.Exam) error { return alike(e) }); err != nil {
		return err
	}
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	return s.journaled(ctx, "doctor --acknowledge-ddl", func(ctx context.Context) error {
		// First: killed between the two, it must not count as verified.
		if err := verify.Invalidate(ctx, s.source, s.spec.Migration); err != nil {
			return err
		}
		if err := s.closePartitions(ctx, l); err != nil {
			return err
		}
		return auditlog.AcknowledgeDDL(ctx, s.captureEnv(l))
	})
}

// closePartitions forgets the triggers of partitions that were dropped, and fences those
// that are new on the databases. Where what follows
// the copy stands already, it is looked through again: what turns a database names
// every partition.
func (s *session) closePartitions(ctx context.Context, l *layout.Layout) error {
	conns, err := s.databases(ctx, "doctor")
	if err != nil {
		return err
	}
	defer closeAll(ctx, conns)
	if err := ddl.ForgetTriggers(ctx, s.source, s.source, s.spec.Migration, store.PlaceSource); err != nil {
		return err
	}
	for _, d := range s.spec.Databases {
		if err := ddl.ForgetTriggers(ctx, s.source, conns[d.Name], s.spec.Migration, d.Name); err != nil {
			return err
		}
		if err := s.closePartitionsOf(ctx, l, d.Name, conns[d.Name]); err != nil {
			return fmt.Errorf("fence new partitions on %s: %w", d.Name, err)
		}
	}
	return nil
}

// closePartitionsOf makes the fences last: killed before, the next run does all again.
func (s *session) closePartitionsOf(ctx context.Context, l *layout.Layout, name string, conn *pgx.Conn) error {
	sharded, everywhere, err := fence.Unclosed(ctx, conn, l, name)
	if err != nil || len(sharded)+len(everywhere) == 0 {
		return err
	}
	finished, err := target.Finished(ctx, conn, l)
	if err != nil {
		return err
	}
	if finished {
		if err := s.finisher(l).Finish(ctx, name); err != nil {
			return err
		}
	}
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		c, err := store.ChangeControl(ctx, tx, s.spec.Migration)
		if err != nil {
			return err
		}
		return fence.CloseNew(ctx, tx, l, name, c.Owner == name)
	})
}

// alike refuses while a side was not asked, or differs from the source.
func alike(e *doctor.Exam) error {
	var failures migrate.Failures
	for _, id := range []string{"server", "owner", "layout", "columns"} {
		for _, state := range []doctor.State{doctor.NotRun, doctor.Broken} {
			for _, c := range e.Of(id, state) {
				hint := "shardctl doctor says more"
				if c.Fix != nil {
					hint = *c.Fix
				}
				failures = append(failures, migrate.Refuse("doctor."+id, c.Object, c.Evidence, hint))
			}
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}
