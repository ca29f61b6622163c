package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// handoverWait is how long a running catchup has to answer.
const handoverWait = 2 * time.Second

// takeOver asks a running catchup to hand over, takes the applier's lease and
// raises the terms: from here on no older process commits anything.
func (w *window) takeOver(ctx context.Context, d Direction) (*store.Lease, error) {
	var lease *store.Lease
	err := w.rec.step(ctx, "take over", func(ctx context.Context) (err error) {
		if lease, err = w.applierLease(ctx, d); err != nil {
			return err
		}
		w.term = lease.Term
		return w.raise(ctx)
	})
	if err != nil {
		w.handBack(ctx, lease)
		return nil, err
	}
	return lease, nil
}

// applierLease asks for the lease until it is had: a catchup that waited for the last
// operator may take it back between the look and the lock, and is asked then.
func (w *window) applierLease(ctx context.Context, d Direction) (*store.Lease, error) {
	for deadline := time.Now().Add(handoverWait); ; {
		if err := w.askHandover(ctx, d); err != nil {
			return nil, err
		}
		lease, err := store.Acquire(ctx, w.cfg.Source, w.cfg.migration(), store.Applier)
		var f *migrate.Failure
		if err == nil || !errors.As(err, &f) || f.Exit != migrate.ExitLeaseHeld || time.Now().After(deadline) {
			return lease, err
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// sharerWait is how long a sharer of the rows whose term is raised may take: ticks
// and holds are shorter, and the lease says that no other applier is at work.
const sharerWait = 2 * time.Second

// raise raises the terms. Who holds a row for longer belongs to a process that
// was stopped in its work, and is ended.
func (w *window) raise(ctx context.Context) error {
	patient := fmt.Sprintf("SET lock_timeout = %d", sharerWait.Milliseconds())
	if err := w.everySide(ctx, func(ctx context.Context, conn *pgx.Conn) error { _, err := conn.Exec(ctx, patient); return err }); err != nil {
		return err
	}
	err := w.raiseOnce(ctx)
	if postgres.SQLState(err) == lockTimeout {
		err = w.everySide(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return store.EvictSharers(ctx, conn, w.cfg.migration(), w.cfg.databaseNames())
		})
		if err == nil {
			err = w.raiseOnce(ctx)
		}
	}
	if err != nil {
		return err
	}
	return w.everySide(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET lock_timeout = 0")
		return err
	})
}

// raiseOnce raises the term on the source, on the databases that the switch moves, and
// on the others as far as they answer.
func (w *window) raiseOnce(ctx context.Context) error {
	moving := map[string]*pgx.Conn{}
	for _, name := range w.cfg.databaseNames() {
		moving[name] = w.databases[name]
	}
	if err := store.RaiseTerms(ctx, w.side, moving, w.cfg.migration(), w.term); err != nil {
		return err
	}
	err := w.eachOf(ctx, w.others, func(ctx context.Context, _ string, conn *pgx.Conn) error {
		return store.RaiseControlTerm(ctx, conn, w.cfg.migration(), w.term)
	})
	if errors.Is(err, store.ErrTerm) {
		return err
	}
	return nil
}

// lockTimeout is the SQLSTATE of a lock that was not had in time.
const lockTimeout = "55P03"

// everySide runs fn on the source's session and on every database's.
func (w *window) everySide(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	if err := fn(ctx, w.side); err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, _ string, conn *pgx.Conn) error { return fn(ctx, conn) })
}

func (w *window) askHandover(ctx context.Context, d Direction) error {
	holder, err := store.Holder(ctx, w.side, w.cfg.migration(), store.Applier)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if holder.Stale() {
		return nil // it hangs and answers nobody; its lease may be taken
	}
	if err := store.RequestHandover(ctx, w.side, w.cfg.migration(), string(d)); err != nil {
		return err
	}
	deadline := time.Now().Add(handoverWait)
	for time.Now().Before(deadline) {
		answered, err := store.HandoverAnswered(ctx, w.side, w.cfg.migration())
		if err != nil || answered {
			return err
		}
		if _, err := store.Holder(ctx, w.side, w.cfg.migration(), store.Applier); errors.Is(err, store.ErrNotFound) {
			return nil // it has ended by itself
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.Join(&migrate.Failure{Code: "handover.no_answer", Object: "catchup", Message: "it did not hand over within 2 s: " + holder.String(),
		Hint: "look at the running catchup, stop it if it hangs, then run the command again", Exit: migrate.ExitLeaseHeld},
		store.ClearHandover(ctx, w.side, w.cfg.migration()))
}

// handBack releases the applier's lease and lets a waiting catchup go on.
func (w *window) handBack(ctx context.Context, lease *store.Lease) {
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if lease != nil {
		lease.Release(ctx)
	}
	// A request that stays is withdrawn by the next command; catchup goes on when no operator lease is held.
	_ = store.ClearHandover(ctx, w.side, w.cfg.migration())
}
