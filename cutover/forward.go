package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Cutover moves the shards of all databases, or of those named, from the source to
// them, or brings an attempt that was stopped to its end. The error, if any, is a *migrate.Failure with the
// exit code of the outcome; the report is valid with an error too.
func Cutover(ctx context.Context, cfg Config) (Report, error) {
	return attempt(ctx, cfg, Forward, func(w *window, s standing) (Outcome, error) {
		all, _ := s.owned(w.cfg.databaseNames())
		switch {
		case all && s.settled():
			return Nothing, w.finish(ctx) // a router may still be held, or a file stale
		case all:
			return Done, w.finish(ctx)
		}
		return w.forward(ctx, s)
	})
}

// attempt opens the window, takes the applier's lease, raises the terms, and lets
// fn act on the standing.
func attempt(ctx context.Context, cfg Config, d Direction, fn func(*window, standing) (Outcome, error)) (report Report, err error) {
	report = Report{Outcome: Refused, Databases: cfg.databaseNames(), Steps: []Step{}}
	var w *window
	defer func() {
		if err != nil {
			if w != nil && report.Outcome != Ambiguous && report.Outcome != Done {
				err = w.offer(d, err)
			}
			reason := err.Error()
			report.Reason = &reason
		}
	}()
	w, err = openWindow(ctx, cfg, d, &report)
	defer w.close(ctx)
	if err != nil {
		return report, err
	}
	lease, err := w.takeOver(ctx, d)
	if err != nil {
		return report, err
	}
	defer w.handBack(ctx, lease)
	if w.applier, err = cfg.Applier(ctx, w.term); err != nil {
		return report, err
	}
	s, err := w.observe(ctx)
	if err != nil {
		return report, err
	}
	report.Outcome, err = fn(w, s)
	if report.Outcome != Done && report.Outcome != Nothing {
		report.Phase = ""
	}
	if err != nil && report.Outcome == Nothing {
		report.Outcome = Refused // what was done before does not stand any more
	}
	return report, err
}

// forward is a cutover from its gates to its end.
func (w *window) forward(ctx context.Context, s standing) (Outcome, error) {
	if err := w.endLast(ctx, s); err != nil {
		return Refused, err
	}
	if err := w.gates(ctx, Forward); err != nil {
		return Refused, err
	}
	tx, backend, err := w.preLock(ctx)
	if err != nil {
		return Refused, err
	}
	epoch := s.epoch + 1
	err = w.hold(ctx, Forward, backend, func(ctx context.Context) error { return w.drainForward(ctx, tx, epoch) })
	if err == nil {
		err = w.rec.decisive(ctx, "commit", func(ctx context.Context) error { return w.commit(ctx, tx, backend, epoch) })
		if err != nil && !errors.Is(err, errUndone) {
			return Ambiguous, unknown(Forward, err)
		}
	}
	if err != nil {
		return w.undo(ctx, undoing{d: Forward, tx: tx, epoch: epoch}, err)
	}
	return w.conclude(ctx, Forward, epoch)
}

// drainForward is what happens inside the window up to the commit.
func (w *window) drainForward(ctx context.Context, tx pgx.Tx, epoch int64) error {
	var owners []store.Ownership
	err := w.rec.step(ctx, "lock", func(ctx context.Context) (err error) {
		if owners, err = w.own(ctx, tx); err != nil {
			return err
		}
		return upgrade(ctx, tx, w.tables.source())
	})
	if err != nil {
		return err
	}
	if err := w.rec.step(ctx, "drain", func(ctx context.Context) error { return w.applier.DrainForward(ctx, w.cfg.databaseNames()) }); err != nil {
		return err
	}
	if err := w.rec.step(ctx, "sequences", w.sequencesForward); err != nil {
		return err
	}
	if err := w.rec.step(ctx, "delta", func(ctx context.Context) error { return w.cfg.Verifier.Exact(ctx, w.cfg.databaseNames()) }); err != nil {
		return err
	}
	return w.rec.step(ctx, "fence", func(ctx context.Context) error {
		if err := w.tables.closeSource(ctx, tx, w.cfg.databaseNames()); err != nil {
			return err
		}
		if err := w.moveOwnership(ctx, tx, owners, epoch, Forward); err != nil {
			return err
		}
		end := time.Now().Add(w.cfg.Layout.Spec.Cutover.RollbackWindow)
		return store.SetWindowEnd(ctx, tx, w.cfg.migration(), &end)
	})
}

// preLock begins the lock transaction on the source and takes the pre-lock: it
// keeps autovacuum away and blocks nobody.
func (w *window) preLock(ctx context.Context) (tx pgx.Tx, backend postgres.Backend, err error) {
	err = w.rec.step(ctx, "pre-lock", gate{run: func(ctx context.Context) error {
		if backend, err = postgres.ReadBackend(ctx, w.lock); err != nil {
			return err
		}
		if tx, err = w.lock.Begin(ctx); err != nil {
			return fmt.Errorf("begin the lock transaction: %w", err)
		}
		if err := postgres.PreLock(ctx, tx, w.tables.source()); err != nil {
			return err
		}
		return w.preLockDatabases(ctx)
	}}.take)
	if err != nil && tx != nil {
		err = errors.Join(err, rollbackTx(ctx, tx))
	}
	return tx, backend, err
}

// hold arms the watchdog, pauses the routers and runs fn inside the budget.
func (w *window) hold(ctx context.Context, d Direction, backend postgres.Backend, fn func(context.Context) error) error {
	w.rec.lazy = true // its statement is prepared before anybody waits
	if err := w.arm(ctx, d, backend); err != nil {
		return err
	}
	if err := w.boundLock(ctx); err != nil {
		return err
	}
	if err := w.ours(ctx); err != nil {
		return err // before the journal says that the routers are held
	}
	if err := w.rec.step(ctx, stepPause, w.pause); err != nil {
		return err
	}
	ctx, cancel := w.budget(ctx)
	defer cancel()
	if err := fn(ctx); err != nil {
		return err
	}
	return ctx.Err()
}
