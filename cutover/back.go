package cutover

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
)

// Rollback moves the shards of all databases, or of those named, back to the source,
// with what was written since, or brings an attempt that was stopped to its end. Errors are as Cutover's.
func Rollback(ctx context.Context, cfg Config) (Report, error) {
	return attempt(ctx, cfg, Back, func(w *window, s standing) (Outcome, error) {
		_, none := s.owned(w.cfg.databaseNames())
		switch {
		case none && s.settled():
			return Nothing, w.finish(ctx)
		case none:
			return Done, w.finish(ctx)
		}
		return w.back(ctx, s)
	})
}

// back is a rollback from its gates to its end.
func (w *window) back(ctx context.Context, s standing) (Outcome, error) {
	if err := w.endLast(ctx, s); err != nil {
		return Refused, err
	}
	if err := w.gates(ctx, Back); err != nil {
		return Refused, err
	}
	tx, backend, err := w.preLock(ctx)
	if err != nil {
		return Refused, err
	}
	epoch := s.epoch + 1
	err = w.hold(ctx, Back, backend, func(ctx context.Context) error { return w.drainBack(ctx, tx, epoch) })
	if err == nil {
		err = w.rec.decisive(ctx, "commit", func(ctx context.Context) error { return w.commit(ctx, tx, backend, epoch) })
		if err != nil && !errors.Is(err, errUndone) {
			return Ambiguous, unknown(Back, err)
		}
	}
	if err != nil {
		return w.undo(ctx, undoing{d: Back, tx: tx, epoch: epoch, reopen: w.reopen}, err)
	}
	return w.conclude(ctx, Back, epoch)
}

// drainBack closes every database, drains what they wrote and prepares the
// source's transaction up to its commit.
func (w *window) drainBack(ctx context.Context, tx pgx.Tx, epoch int64) error {
	if err := w.rec.step(ctx, "close", func(ctx context.Context) error { return w.each(ctx, w.closeDatabase) }); err != nil {
		return err
	}
	// Only now: a database whose close failed may have let a write in after an
	// earlier drain. The probe is written after the last fence's commit.
	if err := w.rec.step(ctx, "drain", func(ctx context.Context) error { return w.applier.DrainReverse(ctx, w.cfg.databaseNames()) }); err != nil {
		return err
	}
	if err := w.rec.step(ctx, "sequences", w.sequencesBack); err != nil {
		return err
	}
	if err := w.rec.step(ctx, "delta", func(ctx context.Context) error { return w.cfg.Verifier.Exact(ctx, w.cfg.databaseNames()) }); err != nil {
		return err
	}
	return w.rec.step(ctx, "fence", func(ctx context.Context) error {
		owners, err := w.own(ctx, tx) // after the drain: the last reverse tick shares these rows
		if err != nil {
			return err
		}
		if err := upgrade(ctx, tx, w.tables.source()); err != nil {
			return err
		}
		if err := w.tables.openSource(ctx, tx, w.cfg.databaseNames()); err != nil {
			return err
		}
		return w.moveOwnership(ctx, tx, owners, epoch, Back)
	})
}

// closeDatabase refuses the application's writes on one database: its control
// row alone, the pre-lock, the lock that waits for writers in flight, the fence.
// The owner stays the database: what it has written still goes back.
func (w *window) closeDatabase(ctx context.Context, name string, _ *pgx.Conn) error {
	return w.through(ctx, name, func(tx pgx.Tx) error {
		c, err := store.ChangeControl(ctx, tx, w.cfg.migration())
		if err != nil {
			return err
		}
		if err := w.checkTerm(c.Term); err != nil {
			return err
		}
		if err := upgrade(ctx, tx, w.tables.database(name)); err != nil {
			return err
		}
		return w.tables.closeDatabase(ctx, tx, name)
	})
}

// reopen opens the databases whose fence is up although the source says that they
// own their shards. It asks the source under the row's lock.
func (w *window) reopen(ctx context.Context) error {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	if err != nil {
		return err
	}
	byName := map[string]store.Ownership{}
	for _, o := range owners {
		byName[o.Database] = o
	}
	return w.each(ctx, func(ctx context.Context, name string, _ *pgx.Conn) error {
		if byName[name].Owner != name {
			return fmt.Errorf("not opened: the source says that it owns the shards")
		}
		return w.settle(ctx, byName[name], owners)
	})
}
