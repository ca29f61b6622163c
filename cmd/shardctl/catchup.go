package main

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

func newCatchup(a *app) *cobra.Command {
	var o auditlog.RunOptions
	cmd := &cobra.Command{
		Use:   "catchup",
		Short: "Apply what the audit log records; leave it running",
		Long: help(`Reads the audit log and brings every database level with the source, again and again,
until it is stopped. At a cutover it hands over to the command and goes on in the other
direction; at a rollback likewise. A database that is down holds back only itself. One
process at a time; where it dies another one goes on from the stored positions.`,
			`  shardctl catchup
  shardctl catchup --once
  shardctl catchup --until-lag 1s`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := apart(cmd, "once", "each says when to exit", "until-lag"); err != nil {
				return err
			}
			return a.catchup(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Once, "once", false, "drain what is there now, then exit")
	durationVar(f, &o.UntilLag, "until-lag", leastLag, migrate.LongestDuration, "exit when no database is further behind than this")
	return cmd
}

func (a *app) catchup(ctx context.Context, o auditlog.RunOptions) error {
	s, err := a.open(ctx, "catchup")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	l, err := s.catchupLayout(ctx)
	if err != nil {
		return err
	}
	cfg := auditlog.Config{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), Observe: s.catchupEvents()}
	if s.phase() == migrate.Completed {
		cfg.ForwardOnly = true // the logs of the way back are gone
	} else {
		v := verify.New(verify.Config{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets()})
		defer v.Close()
		cfg.Delta, cfg.Retain = deltaChecker{v}, s.retained()
	}
	applier, err := auditlog.New(cfg)
	if err != nil {
		return err
	}
	defer applier.Close(context.WithoutCancel(ctx))
	if err := applier.Run(ctx, o); err != nil {
		return err
	}
	return s.finished("done")
}

// catchupLayout refuses a phase in which nothing is left to apply. After complete
// that depends on the tables: everywhere tables may go on following the source.
func (s *session) catchupLayout(ctx context.Context) (*layout.Layout, error) {
	allowed := []migrate.Phase{migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack}
	if s.phase() != migrate.Completed {
		if err := s.require("catchup", allowed...); err != nil {
			return nil, err
		}
	}
	l, err := s.layout(ctx)
	if err == nil && s.phase() == migrate.Completed && !s.followsSource(l) {
		err = s.require("catchup", allowed...)
	}
	return l, err
}

// deltaChecker lets catch-up compare what it has applied, between its ticks.
type deltaChecker struct{ v *verify.Verifier }

func (d deltaChecker) DeltaCheck(ctx context.Context, database string) error {
	_, err := d.v.DeltaCheck(ctx, database)
	return err
}

// retained lists how far verification has compared a log: what lies beyond is kept,
// else its clean pass would go stale.
func (s *session) retained() func(context.Context, auditlog.Side) ([]string, error) {
	var mu sync.Mutex // the sides are tended side by side, on one session
	return func(ctx context.Context, side auditlog.Side) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if s.source.IsClosed() { // catchup outlives a restart of the source
			conn, err := postgres.Connect(ctx, s.sourceTarget(), "catchup")
			if err != nil {
				return nil, err
			}
			s.source = conn
		}
		all, err := verify.Retain(ctx, s.source, s.spec.Migration)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, r := range all {
			if r.Direction == side.Direction() && (side.Database == "" || side.Database == r.Database) {
				out = append(out, r.Snapshot)
			}
		}
		return out, nil
	}
}

// catchupEvents logs what the applier tells, and shows the newest tick.
func (s *session) catchupEvents() auditlog.Observer {
	return func(p auditlog.Progress) {
		e := s.log.Info()
		switch p.Kind {
		case auditlog.Ticked:
			level := zerolog.DebugLevel
			if p.Tick.Entries == 0 {
				level = zerolog.TraceLevel // many a second
			}
			s.log.WithLevel(level).Str("database", p.Database).Str("direction", string(p.Direction)).Int64("entries", p.Tick.Entries).Int64("rows", p.Tick.Rows).
				Dur("took", p.Tick.Took).Dur("lag", time.Since(p.Tick.At)).Msg("tick")
			return
		case auditlog.Waiting, auditlog.Quarantined, auditlog.Tended:
			e = s.log.Warn()
		}
		e.Str("database", p.Database).Err(p.Err).AnErr("first", p.First).Int("tries", p.Tries).Msg(string(p.Kind))
	}
}
