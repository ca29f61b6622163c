package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/restart"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// restartable are the phases in which a database may own nothing and be followed.
var restartable = []migrate.Phase{migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack}

// restarted is the document of prepare --database.
type restarted struct {
	done
	Databases []string `json:"databases"` // those that were started anew
}

// restart starts databases anew after a gap.
func (a *app) restart(ctx context.Context, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	command := "prepare --database " + strings.Join(names, ",")
	s, err := a.open(ctx, "prepare")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.knownDatabases(names); err != nil {
		return err
	}
	if err := s.require(command, restartable...); err != nil {
		return err
	}
	conns, err := s.databases(ctx, "prepare", names...)
	if err != nil {
		return err
	}
	defer closeAll(ctx, conns)
	subjects, err := s.lost(ctx, conns, names)
	if err != nil {
		return err
	}
	if len(subjects) == 0 {
		return s.restarted(ctx, nil)
	}
	if err := a.confirm(command, questionAnew(subjects)); err != nil {
		return err
	}
	held, release, err := s.alone(ctx, command)
	defer release()
	if err != nil {
		return err
	}
	err = s.journaled(held, command, func(ctx context.Context) error {
		// What was judged before may have changed until the leases were had.
		if subjects, err = s.lost(ctx, conns, names); err != nil || len(subjects) == 0 {
			return err
		}
		l, err := s.layout(ctx)
		if err != nil {
			return err
		}
		return restart.Run(ctx, restart.Config{Layout: l, Source: s.source, Databases: conns}, subjects)
	})
	if err != nil {
		return whyStopped(ctx, held, err)
	}
	return s.restarted(ctx, subjects)
}

// lost judges databases, and gives those whose copy cannot be gone on with.
func (s *session) lost(ctx context.Context, conns map[string]*pgx.Conn, names []string) ([]restart.Subject, error) {
	l, err := s.layout(ctx)
	if err != nil {
		return nil, err
	}
	found, err := restart.Look(ctx, s.source, conns, l, names)
	return slices.DeleteFunc(found, func(d restart.Subject) bool { return d.Gap == "" }), err
}

func questionAnew(subjects []restart.Subject) string {
	var names []string
	for _, d := range subjects {
		names = append(names, fmt.Sprintf("%s (%s)", d.Name, d.Gap))
	}
	return "Empty " + strings.Join(names, ", ") + " to be copied anew?"
}

// alone takes the leases of everybody whose work rests on what is to be started anew.
func (s *session) alone(ctx context.Context, command string) (held context.Context, release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
	}
	held, _, free, err := s.lease(ctx, store.Operator)
	releases = append(releases, free)
	if err != nil {
		return held, release, err
	}
	if err := s.reload(held); err != nil { // another process may have switched since
		return held, release, err
	}
	if err := s.require(command, restartable...); err != nil {
		return held, release, err
	}
	keptOut, err := s.keepApplierOut(held, command)
	if err != nil {
		return held, release, err
	}
	releases = append(releases, keptOut)
	held, _, free, err = s.lease(held, store.Verifier)
	releases = append(releases, free)
	return held, release, err
}

// nextCopy is what to run next as far as gaps and the copy go: to start databases anew, to
// copy them, or what follows the phase.
func (s *session) nextCopy(ctx context.Context) (string, error) {
	owners, err := s.owners(ctx)
	if err != nil {
		return "", err
	}
	unfinished, err := backfill.Unfinished(ctx, s.source, s.spec.Migration)
	if err != nil {
		return "", err
	}
	var gaps []string
	next := s.phase().Next()
	for _, o := range owners {
		if o.Owner != store.OwnerSource {
			continue
		}
		gap, err := store.Gap(ctx, s.source, s.spec.Migration, o.Database, store.Forward)
		if err != nil {
			return "", err
		}
		if gap != "" {
			gaps = append(gaps, o.Database)
		}
		if slices.Contains(unfinished, o.Database) {
			next = "shardctl backfill"
		}
	}
	return nextAnew(gaps, next), nil
}

// nextAnew puts the start of databases with a gap before anything else.
func nextAnew(gaps []string, next string) string {
	if len(gaps) == 0 {
		return next
	}
	return "shardctl prepare --database " + strings.Join(gaps, ",")
}

func (s *session) restarted(ctx context.Context, subjects []restart.Subject) error {
	next, err := s.nextCopy(ctx)
	if err != nil {
		return err
	}
	d := restarted{done: done{Phase: s.phase(), Done: "done", Next: next}, Databases: []string{}}
	if len(subjects) == 0 {
		d.Done = nothingToDo
	}
	for _, x := range subjects {
		d.Databases = append(d.Databases, x.Name)
	}
	return s.print(d, func(w io.Writer) {
		if len(subjects) == 0 {
			fmt.Fprintln(w, nothingToDo+": no log has lost what they have not seen")
			return
		}
		fmt.Fprintf(w, "%s: empty, to be copied anew; next: %s\n", strings.Join(d.Databases, ", "), d.Next)
	})
}
