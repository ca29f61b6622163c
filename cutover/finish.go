package cutover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/internal/topology"
)

const (
	// finishTimeout bounds all that follows the point of no return. Past it the next
	// run goes on from where this one stood.
	finishTimeout = 30 * time.Second
	// heldSpare is what clients may wait beyond max_pause for a server or a pooler that does
	// not answer once the switch is committed: half of it for a database, the rest to flip.
	heldSpare = time.Second
	// leastHeld is what each of these has in any case: who is released to a closed database,
	// or where nobody serves any more, is refused.
	leastHeld = 500 * time.Millisecond
	// heldTimeout, or max_pause if that is longer, bounds each where it is not known since
	// when clients are held.
	heldTimeout = 5 * time.Second
	// askAgain is after how long another process may have taken over since the source said
	// that none has: this one may have been stopped.
	askAgain = time.Second
	// firstEpoch is as prepare writes it: nothing was ever switched.
	firstEpoch = 1
)

// endLast brings the last attempt to its end in the direction that its point of no
// return says, if it and its watchdog were killed before: else clients would be
// released to a side that refuses them.
func (w *window) endLast(ctx context.Context, s standing) error {
	if !w.ended(ctx, s) {
		return w.finish(ctx)
	}
	held, err := store.LeftHeld(ctx, w.side, w.cfg.migration())
	if err != nil {
		return err
	}
	if held != "" { // by one that was killed before its commit
		return w.rec.always(ctx, "resume", w.resume)
	}
	return w.resume(ctx)
}

// leads reports whether every router leads to the owners.
func (w *window) leads(ctx context.Context, owners []store.Ownership) bool {
	doc, err := topology.Build(w.cfg.Layout.Spec, owners)
	return err == nil && w.routers(func(i int) error { return w.cfg.Routers[i].ReadBack(ctx, doc) }) == nil
}

// finish carries out what the source's ownership rows say: every database opened
// or closed, every router flipped, read back and released. It is idempotent, and it
// is all that follows a point of no return, in either direction. Who was overtaken
// does nothing of it.
func (w *window) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	owners, err := w.askOwners(ctx)
	if err != nil {
		return err
	}
	return w.carryOut(ctx, owners)
}

// askOwners asks the source who owns the shards, and whether that is still ours to carry out.
func (w *window) askOwners(ctx context.Context) ([]store.Ownership, error) {
	w.reviveSource(ctx)
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	if err == nil && w.passed(owners) {
		err = errTakenOver
	}
	return owners, err
}

// carryOut is finish with what the source has just said. A database or a router that does
// not answer does not keep the others' clients waiting: it is asked again after the
// routers were released. Where another process has taken over meanwhile, it holds and
// releases them.
func (w *window) carryOut(ctx context.Context, owners []store.Ownership) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	asked := time.Now()
	w.rec.report.Phase = phaseOf(owners)
	opened := w.rec.always(ctx, "open", func(ctx context.Context) error { return w.openHeld(ctx, owners) })
	if errors.Is(opened, store.ErrTerm) && w.overtakenNow(ctx) {
		return opened
	}
	flipped := w.flip(ctx, w.heldFor(heldSpare), owners)
	if time.Since(asked) > askAgain && w.overtakenNow(ctx) {
		return errors.Join(errTakenOver, opened, flipped)
	}
	released := w.rec.always(ctx, "resume", w.resume)
	if flipped != nil {
		flipped = w.flip(ctx, heldTimeout, owners)
	}
	if opened != nil {
		w.shutDoors(ctx)
		w.revive(ctx)
		opened = w.rec.always(ctx, "open again", func(ctx context.Context) error { return w.settleAll(ctx, finishTimeout, owners) })
	}
	if err := errors.Join(opened, flipped, released); err != nil {
		return err
	}
	return errors.Join(w.disarm(ctx), w.rec.always(ctx, "settle", w.validateOpened), w.copyState(ctx, owners))
}

// heldFor is how long a part may last for which clients wait: to the end of max_pause and
// what is spared beyond it.
func (w *window) heldFor(spare time.Duration) time.Duration {
	if w.paused.IsZero() {
		return max(heldTimeout, w.cfg.MaxPause)
	}
	return max(time.Until(w.paused.Add(w.cfg.MaxPause+spare)), leastHeld)
}

// overtakenNow is takenOver for while clients are held.
func (w *window) overtakenNow(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, leastHeld)
	defer cancel()
	w.reviveSource(ctx)
	return w.takenOver(ctx)
}

// openHeld settles the databases while clients are held: where a session has turned out
// to be broken on a new one, since who is released to a closed database is refused.
func (w *window) openHeld(ctx context.Context, owners []store.Ownership) error {
	ctx, cancel := context.WithTimeout(ctx, w.heldFor(heldSpare/2))
	defer cancel()
	err := w.settleAll(ctx, finishTimeout, owners)
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrTerm) {
		return err
	}
	w.shutDoors(ctx)
	w.reviveWithin(ctx)
	return w.settleAll(ctx, finishTimeout, owners)
}

// settleAll makes every database what the source says it is, also one that this switch
// does not move: the last one may have left it.
func (w *window) settleAll(ctx context.Context, limit time.Duration, owners []store.Ownership) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return w.eachOf(ctx, append(w.cfg.databaseNames(), w.leftover...), func(ctx context.Context, name string, _ *pgx.Conn) error {
		for _, o := range owners {
			if o.Database == name {
				return w.settle(ctx, o, owners)
			}
		}
		return store.ErrNotFound
	})
}

// validateOpened validates the foreign keys that opening had to exchange, beside
// the application.
func (w *window) validateOpened(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		shut, err := w.tables.closed(ctx, conn, name)
		if err != nil || shut {
			return err
		}
		return target.Settle(ctx, conn, w.cfg.Layout)
	})
}

// settle makes one database what the source says it is, in one commit: control
// row, fence, guards, triggers, and its copy of the ownership. One that could not be
// reached when the term was raised hears of it here.
func (w *window) settle(ctx context.Context, o store.Ownership, all []store.Ownership) error {
	return w.through(ctx, o.Database, func(tx pgx.Tx) error {
		c, err := store.ChangeControl(ctx, tx, w.cfg.migration())
		if err != nil {
			return err
		}
		if c.Term > w.term {
			return w.checkTerm(c.Term)
		}
		closed, err := w.tables.closed(ctx, tx, o.Database)
		if err != nil {
			return err
		}
		shut := o.Owner == store.OwnerSource
		if c.Term == w.term && c.Owner == o.Owner && c.Epoch == o.Epoch && closed == shut {
			return nil
		}
		c.Term, c.Owner, c.Epoch = w.term, o.Owner, o.Epoch
		if err := store.SaveControl(ctx, tx, w.cfg.migration(), c); err != nil {
			return err
		}
		if closed != shut {
			if err := w.turn(ctx, tx, o.Database, shut); err != nil {
				return err
			}
		}
		for _, copied := range all {
			if err := store.SaveOwnership(ctx, tx, w.cfg.migration(), copied); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *window) turn(ctx context.Context, tx pgx.Tx, name string, shut bool) error {
	if shut {
		return w.tables.closeDatabase(ctx, tx, name)
	}
	return w.tables.openDatabase(ctx, tx, name)
}

// flip writes the topology of the owners to every router and reads it back.
func (w *window) flip(ctx context.Context, limit time.Duration, owners []store.Ownership) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	doc, err := topology.Build(w.cfg.Layout.Spec, owners)
	if err != nil {
		return err
	}
	err = w.rec.always(ctx, "flip", func(ctx context.Context) error {
		return w.routers(func(i int) error { return w.cfg.Routers[i].Commit(ctx, doc) })
	})
	if err != nil {
		return err
	}
	return w.rec.always(ctx, "read back", func(ctx context.Context) error {
		return w.routers(func(i int) error { return w.cfg.Routers[i].ReadBack(ctx, doc) })
	})
}

// copyState gives every database a copy of the journal, and those that the switch did
// not move one of the owners: after a cutover the source may be the machine that dies.
func (w *window) copyState(ctx context.Context, owners []store.Ownership) error {
	entries, err := store.ReadJournal(ctx, w.side, w.cfg.migration(), 0)
	if err != nil {
		return err
	}
	copyTo := func(ctx context.Context, name string, conn *pgx.Conn) error {
		if slices.Contains(w.others, name) {
			for _, o := range owners {
				if err := store.CopyOwnership(ctx, conn, w.cfg.migration(), o); err != nil {
					return err
				}
			}
		}
		batch := &pgx.Batch{}
		for _, e := range entries {
			store.QueueEntry(batch, w.cfg.migration(), e)
		}
		return sendBatch(ctx, conn, batch, "copy the journal")
	}
	_ = w.eachOf(ctx, w.others, copyTo) // one that is down has an older copy, whose epoch says so
	return w.each(ctx, copyTo)
}
