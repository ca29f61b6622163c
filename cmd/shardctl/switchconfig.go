package main

import (
	"context"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// switchConfig wires what a switch of some databases needs, or of all. The function that comes back closes all
// of it, also after an error.
func (s *session) switchConfig(ctx context.Context, d cutover.Direction, only []string) (cutover.Config, func(), error) {
	var closers []func()
	closeParts := func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	l, err := s.layout(ctx)
	if err != nil {
		return cutover.Config{}, closeParts, err
	}
	routers, closeRouters, err := s.routers(ctx)
	closers = append(closers, closeRouters)
	if err != nil {
		return cutover.Config{}, closeParts, err
	}
	v, closeVerifier := s.verifier(l)
	closers = append(closers, closeVerifier)
	cfg := cutover.Config{
		Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), Only: only, MaxPause: s.spec.Cutover.MaxPause,
		Verifier: v, Copy: wholeCopy{s}, Routers: routers, Watchdog: s.startWatchdog,
		Observe: func(step cutover.Step) {
			s.log.Info().Str("step", step.Name).Float64("ms", step.MS).Str("outcome", step.Outcome).Msg(string(d))
		},
	}
	cfg.Applier = func(ctx context.Context, term int64) (cutover.Applier, error) {
		a, err := auditlog.New(auditlog.Config{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), Term: term})
		if err != nil {
			return nil, err
		}
		closers = append(closers, func() { a.Close(context.WithoutCancel(ctx)) })
		return a, nil
	}
	return cfg, closeParts, nil
}

// wholeCopy asks a database's own ledger whether its copy is whole.
type wholeCopy struct{ s *session }

func (c wholeCopy) Whole(ctx context.Context, database string) error {
	lacks, err := c.s.lacking(ctx, database)
	if err != nil || lacks == "" {
		return err
	}
	return migrate.Refuse("backfill.incomplete", database, lacks, "run shardctl backfill")
}

// finisher makes what follows a copy.
func (s *session) finisher(l *layout.Layout) backfill.Finisher { return copyFinisher{s: s, l: l} }

type copyFinisher struct {
	s *session
	l *layout.Layout
}

// Finish makes indexes, constraints, triggers and grants of one database.
func (f copyFinisher) Finish(ctx context.Context, database string) error {
	source, err := postgres.Connect(ctx, f.s.sourceTarget(), "backfill finish")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, source)
	d, _ := f.s.spec.Database(database)
	conn, err := postgres.Connect(ctx, postgres.Target{Name: database, DSN: d.DSN}, "backfill finish")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	return target.Finish(ctx, source, conn, f.l, database, func(p target.Progress) {
		f.s.log.Info().Str("database", p.Database).Str("object", p.Object).Int("done", p.Done).Int("total", p.Total).Msg(p.What)
	})
}
