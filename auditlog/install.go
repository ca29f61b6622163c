package auditlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// defaultLockWait is how long install tries for one table's lock: longer than an
// application's transactions, short enough for a person to wait for.
const defaultLockWait = 30 * time.Second

// Env is what making or removing capture needs.
type Env struct {
	Layout    *layout.Layout
	Source    postgres.Target
	Databases []postgres.Target // those of the spec that take part
	LockWait  time.Duration     // for each lock on a table. Defaults to 30 s
	Observe   func(Installed)   // each table as it is done; nil is none
}

// Installed tells that capture of one table stands on a side.
type Installed struct {
	Side    string // "source" or the database
	Table   string
	Changed bool // false: nothing was lacking
}

func (e Env) migration() string { return e.Layout.Spec.Migration }

func (e Env) tell(i Installed) {
	if e.Observe != nil {
		e.Observe(i)
	}
}

// Install makes capture stand on the source and on all databases, with the dormant
// fences of the source: first the positions that have seen nothing, then one table
// after the other. It compares the catalog and adds what lacks, so that it may be
// killed anywhere and run again. Drift from what was accepted is refused: what was
// written meanwhile is unknown. The phase is the caller's to move.
func Install(ctx context.Context, env Env) error { return install(ctx, env, false) }

// AcknowledgeDDL accepts the tables as they are, on all sides, after the operator
// has applied a DDL everywhere; the layout is read after it. What capture lacks is
// added. Rows written while it was off are only found by a verification.
func AcknowledgeDDL(ctx context.Context, env Env) error { return install(ctx, env, true) }

func install(ctx context.Context, env Env, accept bool) error {
	source, err := postgres.Connect(ctx, env.Source, "install")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, source)
	if err := firstPositions(ctx, env, source); err != nil {
		return err
	}
	if err := ddl.Create(ctx, source, source, fence.SourceFunctions(env.Layout)); err != nil {
		return fmt.Errorf("make the fences' functions on the source: %w", err)
	}
	if err := newInstaller(env, SourceSide(env.Layout), source, source, accept).run(ctx); err != nil {
		return err
	}
	for _, target := range env.Databases {
		if err := installReverse(ctx, env, target, source, accept); err != nil {
			return err
		}
	}
	return store.SetInstallLSN(ctx, source, env.migration())
}

// InstallReverse makes the capture of one database stand.
func InstallReverse(ctx context.Context, env Env, database postgres.Target) error {
	source, err := postgres.Connect(ctx, env.Source, "install")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, source)
	return installReverse(ctx, env, database, source, false)
}

func installReverse(ctx context.Context, env Env, database postgres.Target, source *pgx.Conn, accept bool) error {
	conn, err := postgres.Connect(ctx, database, "install")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	return newInstaller(env, DatabaseSide(env.Layout, database.Name), conn, source, accept).run(ctx)
}

// firstPositions writes, before any trigger exists, the positions from which
// nothing has been seen: forward on each database, reverse on the source.
func firstPositions(ctx context.Context, env Env, source *pgx.Conn) error {
	origin, err := postgres.ReadIdentity(ctx, source)
	if err != nil {
		return err
	}
	var errs []error
	for _, target := range env.Databases {
		if err := firstPositionsOf(ctx, env, source, origin, target); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func firstPositionsOf(ctx context.Context, env Env, source *pgx.Conn, origin postgres.Identity, target postgres.Target) error {
	conn, err := postgres.Connect(ctx, target, "install")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	identity, err := postgres.ReadIdentity(ctx, conn)
	if err != nil {
		return fmt.Errorf("database %s: %w", target.Name, err)
	}
	if err := store.SaveFirstPosition(ctx, conn, env.migration(), target.Name, store.Forward, origin); err != nil {
		return err
	}
	return store.SaveFirstPosition(ctx, source, env.migration(), target.Name, store.Reverse, identity)
}

// installer makes the capture of one side stand.
type installer struct {
	env      Env
	side     Side
	conn     *pgx.Conn // to the side
	source   *pgx.Conn // the registry; the same session on the source
	watch    *Watch
	accept   bool // take the tables as they are
	lockWait time.Duration
}

func newInstaller(env Env, side Side, conn, source *pgx.Conn, accept bool) *installer {
	in := &installer{env: env, side: side, conn: conn, source: source, watch: NewWatch(side), accept: accept, lockWait: env.LockWait}
	if in.lockWait == 0 {
		in.lockWait = defaultLockWait
	}
	return in
}

// run goes through the tables.
func (in *installer) run(ctx context.Context) error {
	accepted, err := in.watch.accepted(ctx, in.conn, in.accept)
	if err != nil {
		return err
	}
	for _, t := range in.side.Tables() {
		log, err := in.ensureLog(ctx, t)
		if err != nil {
			return err
		}
		triggers, err := in.ensureTriggers(ctx, t, accepted[t.No])
		if err != nil {
			return err
		}
		in.env.tell(Installed{Side: in.side.Name(), Table: t.Name(), Changed: log || triggers})
	}
	return nil
}

// register notes objects before they are made: on the source in the transaction
// that makes them, for a database durably before it.
func (in *installer) register(ctx context.Context, tx pgx.Tx, statements []ddl.Statement) error {
	if in.side.onSource() {
		return store.Register(ctx, tx, ddl.Objects(statements)...)
	}
	return store.Register(ctx, in.source, ddl.Objects(statements)...)
}
