package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// session is a command's view of one migration: the spec, the source, and what
// the state says of it.
type session struct {
	*app
	spec      *migrate.Spec
	source    *pgx.Conn
	migration *store.Migration // nil before prepare
}

// open reads the spec, connects to the source and checks that the state speaks of
// the same migration. The caller closes it.
func (a *app) open(ctx context.Context, purpose string) (*session, error) {
	spec, err := migrate.Load(a.File)
	if err != nil {
		return nil, err
	}
	return a.openSpec(ctx, spec, purpose)
}

func (a *app) openSpec(ctx context.Context, spec *migrate.Spec, purpose string) (*session, error) {
	s := &session{app: a, spec: spec}
	var err error
	if s.source, err = postgres.Connect(ctx, s.sourceTarget(), purpose); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func (s *session) close(ctx context.Context) { postgres.CloseQuietly(ctx, s.source) }

// load reads the migration's row and compares the spec with the stored one.
func (s *session) load(ctx context.Context) error {
	m, err := store.LoadMigration(ctx, s.source, s.spec.Migration)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.migration = m
	id, err := postgres.ReadIdentity(ctx, s.source)
	if err != nil {
		return err
	}
	if id.SystemIdentifier != m.SystemIdentifier {
		return migrate.Refuse("source.other_server", "source", "this server is not the one that migration "+m.Name+" began on", "check source.dsn; a server restored from a dump is another one")
	}
	return s.compareSpec(ctx)
}

func (s *session) compareSpec(ctx context.Context) error {
	if s.spec.Digest() == s.migration.SpecDigest {
		return nil
	}
	var began migrate.Redacted
	if err := json.Unmarshal(s.migration.Spec, &began); err != nil {
		return fmt.Errorf("read the stored spec: %w", err)
	}
	if failure := migrate.RefuseChanges(began, s.spec.Redacted()); failure != nil && s.migration.Phase != migrate.Aborted {
		return failure
	}
	return nil
}

// phase is where the migration stands; new before prepare.
func (s *session) phase() migrate.Phase {
	if s.migration == nil {
		return migrate.New
	}
	return s.migration.Phase
}

// require refuses a command in a phase that does not allow it, naming the phase
// and the command to run.
func (s *session) require(command string, allowed ...migrate.Phase) error {
	if slices.Contains(allowed, s.phase()) {
		return nil
	}
	hint := "nothing is left to run"
	if next := s.phase().Next(); next != "" {
		hint = "run " + next
	}
	return migrate.Refuse("phase.order", "migration "+s.spec.Migration, fmt.Sprintf("%s cannot run in phase %s", command, s.phase()), hint)
}

func (s *session) sourceTarget() postgres.Target {
	return postgres.Target{Name: "source", DSN: s.spec.Source.DSN}
}

func (s *session) databaseTargets() []postgres.Target {
	out := make([]postgres.Target, len(s.spec.Databases))
	for i, d := range s.spec.Databases {
		out[i] = postgres.Target{Name: d.Name, DSN: d.DSN}
	}
	return out
}

// databases connects to the databases of these names, without names to every one; close
// with closeAll.
func (s *session) databases(ctx context.Context, purpose string, names ...string) (map[string]*pgx.Conn, error) {
	out := map[string]*pgx.Conn{}
	for _, t := range s.databaseTargets() {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		conn, err := postgres.Connect(ctx, t, purpose)
		if err != nil {
			closeAll(ctx, out)
			return nil, err
		}
		out[t.Name] = conn
	}
	return out, nil
}

func closeAll(ctx context.Context, conns map[string]*pgx.Conn) {
	for _, c := range conns {
		postgres.CloseQuietly(ctx, c)
	}
}

func (s *session) layout(ctx context.Context) (*layout.Layout, error) {
	return layout.Load(ctx, s.source, s.spec)
}

// lease takes a role's lease. The context that comes back ends when the
// lease is lost; release gives it back.
func (s *session) lease(ctx context.Context, role store.Role) (context.Context, *store.Lease, func(), error) {
	l, err := store.Acquire(ctx, s.sourceTarget(), s.spec.Migration, role)
	if err != nil {
		return ctx, nil, func() {}, err
	}
	held, cancel := l.Context(ctx)
	return held, l, func() { cancel(); l.Release(ctx) }, nil
}

// reload reads the migration's row again, under the lease that now protects it.
func (s *session) reload(ctx context.Context) error {
	m, err := store.LoadMigration(ctx, s.source, s.spec.Migration)
	if err != nil {
		return err
	}
	s.migration = m
	return nil
}

// setPhase moves the migration, if that is legal.
func (s *session) setPhase(ctx context.Context, to migrate.Phase) error {
	err := postgres.WithTx(ctx, s.source, pgx.TxOptions{}, func(tx pgx.Tx) error { return store.SetPhase(ctx, tx, s.spec.Migration, to) })
	if err != nil {
		return err
	}
	return s.reload(ctx)
}
