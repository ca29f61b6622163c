package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

type backfillOptions struct {
	Workers       int
	Mode          string
	Databases     []string
	Pause, Resume bool
}

func newBackfill(a *app) *cobra.Command {
	var o backfillOptions
	cmd := &cobra.Command{
		Use:   "backfill",
		Short: "Copy the old rows, while catch-up applies the new ones",
		Long: help(`Copies the rows in chunks, each read once and split over the databases, and then makes
indexes, foreign keys and what else follows the copy. A row that catch-up has written or
deleted meanwhile is never overwritten. Any number of processes share the work; a chunk
that a database's ledger has is not copied again. It waits for a running catchup at its end.`,
			`  shardctl backfill
  shardctl backfill --workers 4 --mode live
  shardctl backfill --database db0  # the others another time
  shardctl backfill --pause        # all running backfills stop taking chunks
  shardctl backfill --resume`, "4"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"pause", "resume"} {
				if err := apart(cmd, flag, "it acts on all running backfills", "pause", "resume", "workers", "mode", "database"); err != nil {
					return err
				}
			}
			if o.Mode != "" && o.Mode != string(backfill.Live) && o.Mode != string(backfill.Fast) {
				return migrate.Usage("usage.flag", "--mode", fmt.Sprintf("%q is neither live nor fast", o.Mode), "")
			}
			if o.Pause || o.Resume {
				return a.holdBackfill(cmd.Context(), o.Pause)
			}
			return a.backfill(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	numberVar(f, &o.Workers, "workers", 1, mostWorkers, "chunks at a time (default: from the machine's processors)")
	f.StringVar(&o.Mode, "mode", "", "live or fast (default: chosen for each database)")
	namesVar(f, &o.Databases, "database", "only to the named databases (may be repeated; commas)")
	f.BoolVar(&o.Pause, "pause", false, "stop all running backfills from taking chunks")
	f.BoolVar(&o.Resume, "resume", false, "let them go on")
	return cmd
}

func (a *app) holdBackfill(ctx context.Context, pause bool) error {
	s, err := a.open(ctx, "backfill")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.require("backfill --pause", copyPhases...); err != nil {
		return err
	}
	if err := backfill.SetPaused(ctx, s.source, s.spec.Migration, pause, store.Myself().OSUser); err != nil {
		return err
	}
	return s.print(map[string]bool{"paused": pause}, func(w io.Writer) { fmt.Fprintf(w, "paused: %v\n", pause) })
}

func (a *app) backfill(ctx context.Context, o backfillOptions) error {
	s, err := a.open(ctx, "backfill")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.knownDatabases(o.Databases); err != nil {
		return err
	}
	if err := s.require("backfill", copyPhases...); err != nil {
		return err
	}
	if o.Databases, err = s.toCopy(ctx, o.Databases); err != nil {
		return err
	}
	if len(o.Databases) == 0 {
		return s.copied(ctx, nothingToDo)
	}
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	err = s.journaled(ctx, "backfill", func(ctx context.Context) error {
		if err := s.copyRows(ctx, l, o); err != nil {
			return err
		}
		return s.reload(ctx)
	})
	if err != nil {
		return err
	}
	return s.copied(ctx, "done")
}

// copied ends a backfill, which may have left out databases.
func (s *session) copied(ctx context.Context, outcome string) error {
	next, err := s.nextCopy(ctx)
	if err != nil {
		return err
	}
	return s.finishedNext(outcome, next)
}

// copyPhases are those in which there may be something to copy. Once the copy is whole that
// is only a database that was started anew.
var copyPhases = []migrate.Phase{migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.RolledBack}

// toCopy gives the databases, of those named or of all, that a backfill has to do with.
func (s *session) toCopy(ctx context.Context, only []string) ([]string, error) {
	switch s.phase() {
	case migrate.Installed, migrate.Backfilling:
		if len(only) == 0 {
			only = s.spec.DatabaseNames()
		}
		return only, nil
	}
	owners, err := s.owners(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range owners {
		if o.Owner == store.OwnerSource && (len(only) == 0 || slices.Contains(only, o.Database)) {
			names = append(names, o.Database)
		}
	}
	return s.incomplete(ctx, names)
}

// incomplete gives those of databases whose copy lacks something. Where none does, the
// error is that of those whose copy is whole and can no longer be brought up to date.
func (s *session) incomplete(ctx context.Context, names []string) (out []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	conns, err := s.databases(ctx, "copy", names...)
	if err != nil {
		return nil, err
	}
	defer closeAll(ctx, conns)
	var gaps []error
	for _, name := range names {
		lacks, err := backfill.Lacking(ctx, s.source, conns[name], s.spec.Migration, name)
		if err != nil {
			return nil, err
		}
		if lacks != "" {
			out = append(out, name)
			continue
		}
		_, err = auditlog.Reaches(ctx, s.source, conns[name], s.spec.Migration, name, store.Forward)
		if err != nil && !auditlog.IsGap(err) {
			return nil, err
		}
		gaps = append(gaps, err)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, errors.Join(gaps...)
}

// lacking asks a database's own ledger what its copy lacks; "" if it is whole.
func (s *session) lacking(ctx context.Context, database string) (string, error) {
	d, _ := s.spec.Database(database)
	conn, err := postgres.Connect(ctx, postgres.Target{Name: database, DSN: d.DSN}, "copy")
	if err != nil {
		return "", err
	}
	defer postgres.CloseQuietly(ctx, conn)
	return backfill.Lacking(ctx, s.source, conn, s.spec.Migration, database)
}

func (s *session) copyRows(ctx context.Context, l *layout.Layout, o backfillOptions) error {
	b := s.bar(-1, "backfill")
	defer b.finish()
	defer s.follow(ctx, b)()
	cfg := backfill.Config{Source: s.sourceTarget(), Databases: s.databaseTargets(), Layout: l, Only: o.Databases, Workers: o.Workers, Mode: backfill.Mode(o.Mode),
		Finisher: s.finisher(l), Events: s.backfillEvents(b)}
	if s.spec.Source.ReadDSN != "" {
		cfg.Read = &postgres.Target{Name: "replica", DSN: s.spec.Source.ReadDSN}
	}
	_, err := backfill.Run(ctx, cfg)
	return err
}

// backfillEvents shows what a backfill tells, in the bar and as log lines.
func (s *session) backfillEvents(b *bar) func(backfill.Event) {
	return func(e backfill.Event) {
		switch e.Kind {
		case backfill.EventChunk:
			return // the bar follows the state
		case backfill.EventThrottled, backfill.EventUnreachable:
			s.log.Warn().Str("database", e.Database).Str("reason", e.Message).Msg("backfill waits")
		default:
			s.log.Info().Str("event", string(e.Kind)).Str("database", e.Database).Str("table", e.Table).Msg(e.Message)
		}
		b.say("backfill: " + string(e.Kind))
	}
}

// follow moves the bar by the state, which all processes of a backfill share,
// until the function that it gives is called.
func (s *session) follow(ctx context.Context, b *bar) (stop func()) {
	if b.p == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := postgres.Connect(ctx, s.sourceTarget(), "progress")
		if err != nil {
			return // the backfill itself says so
		}
		defer postgres.CloseQuietly(ctx, conn)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if status, err := backfill.ReadStatus(ctx, conn, s.spec); err == nil {
				b.total(max(status.RowsEstimated, status.RowsDone))
				b.set(status.RowsDone)
			}
		}
	}()
	return func() { cancel(); <-ended }
}
