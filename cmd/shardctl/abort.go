package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

func newAbort(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "abort",
		Short: "Before a cutover or after a rollback: remove everything shardctl made",
		Long: help(`Removes every object that the registry holds, on every database and on the source: triggers
are disabled first and dropped later, with locks that give way. The rows on the source
are untouched; the copies on the databases go. Routers stay as they are: on the source.`,
			`  shardctl abort --yes`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.abort(cmd.Context()) },
	}
}

func (a *app) abort(ctx context.Context) error {
	s, err := a.open(ctx, "abort")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if s.migration == nil || s.phase() == migrate.Aborted {
		return s.finished(nothingToDo)
	}
	if err := s.require("abort", migrate.New, migrate.Prepared, migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.RolledBack); err != nil {
		return err
	}
	if err := a.confirm("abort", "Remove everything of migration "+s.spec.Migration+", the copies on the databases included?"); err != nil {
		return err
	}
	unleased := ctx
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released {
			release()
		}
	}()
	if err := s.reload(ctx); err != nil { // another process may have cut over since
		return err
	}
	if err := s.require("abort", migrate.New, migrate.Prepared, migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.RolledBack); err != nil {
		return err
	}
	keptOut, err := s.keepApplierOut(ctx, "abort")
	if err != nil {
		return err
	}
	defer keptOut()
	tried, err := store.SwitchTried(ctx, s.source, s.spec.Migration)
	if err != nil {
		return err
	}
	if tried {
		if err := s.requireSettled(ctx, cutover.Back); err != nil {
			return err
		}
	}
	if err := store.NewJournal(s.spec.Migration, "abort").Record(ctx, s.source, store.StepRemove, "started", nil); err != nil {
		return err
	}
	if err := s.removeAll(ctx); err != nil {
		return err
	}
	// The lease's row goes with the state, and its heartbeat then calls it lost: not on
	// the lease's context. The session's lock still keeps other operators away.
	if err := store.DropSource(unleased, s.source, s.spec.Migration); err != nil {
		return err
	}
	released = true
	release()
	return s.print(done{Phase: migrate.Aborted, Done: "done", Next: migrate.Aborted.Next()}, func(w io.Writer) { fmt.Fprintln(w, "aborted; everything of ours is removed") })
}

// removeAll undoes the registry, databases first, and forgets verification.
func (s *session) removeAll(ctx context.Context) error {
	if err := s.forgetRouters(ctx); err != nil {
		return err
	}
	for _, t := range s.databaseTargets() {
		if err := s.removeDatabase(ctx, t); err != nil {
			return fmt.Errorf("abort on %s: %w", t.Name, err)
		}
	}
	objects, err := store.Registered(ctx, s.source, s.spec.Migration, store.PlaceSource)
	if err != nil {
		return err
	}
	if err := ddl.Remove(ctx, s.source, s.source, objects); err != nil {
		return fmt.Errorf("abort on the source: %w", err)
	}
	return verify.Forget(ctx, s.source, s.spec.Migration)
}

func (s *session) removeDatabase(ctx context.Context, t postgres.Target) error {
	objects, err := store.Registered(ctx, s.source, s.spec.Migration, t.Name)
	if err != nil {
		return err
	}
	conn, err := postgres.Connect(ctx, t, "abort")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	if err := s.checkMember(ctx, conn, t.Name); err != nil {
		return err
	}
	if err := ddl.Remove(ctx, s.source, conn, objects); err != nil {
		return err
	}
	return store.DropDatabase(ctx, conn, s.spec.Migration)
}

// checkMember refuses a database that is not the one that was prepared: its
// objects are not ours.
func (s *session) checkMember(ctx context.Context, conn *pgx.Conn, name string) error {
	noted, err := store.Members(ctx, s.source, s.spec.Migration)
	if err != nil {
		return err
	}
	id, err := postgres.ReadIdentity(ctx, conn)
	if err != nil {
		return err
	}
	return store.CheckMember(noted, name, id)
}

// forgetRouters removes our epoch from every router; where they lead stays.
func (s *session) forgetRouters(ctx context.Context) error {
	routers, closeRouters, err := s.routers(ctx)
	defer closeRouters()
	if err != nil {
		return err
	}
	for _, r := range routers {
		if err := r.Forget(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keepApplierOut takes the applier's lease until release is called: what a catchup reads
// and writes is about to go. One that runs is a refusal; one that waits for the operator
// cannot begin meanwhile.
func (s *session) keepApplierOut(ctx context.Context, command string) (release func(), err error) {
	lease, err := store.Acquire(ctx, s.sourceTarget(), s.spec.Migration, store.Applier)
	if err == nil {
		return func() { lease.Release(ctx) }, nil
	}
	h, holderErr := store.Holder(ctx, s.source, s.spec.Migration, store.Applier)
	if holderErr != nil {
		return nil, err
	}
	return nil, &migrate.Failure{Code: "lease.held", Object: "catchup", Exit: migrate.ExitLeaseHeld,
		Message: fmt.Sprintf("it still runs: pid %d of %s on %s", h.Who.PID, h.Who.OSUser, h.Who.Host), Hint: "stop it, then run shardctl " + command + " again"}
}
