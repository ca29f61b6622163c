package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// undoing is an attempt that did not commit.
type undoing struct {
	d      Direction
	tx     pgx.Tx
	epoch  int64                       // what it would have committed
	reopen func(context.Context) error // nil where nothing was closed
}

// errTakenOver says that another process has raised the term: what is to be undone
// or finished is its business.
var errTakenOver = errors.New("another process has taken over")

// stale reports whether an error says that another process has raised the term.
func stale(err error) bool { return errors.Is(err, errTakenOver) || errors.Is(err, store.ErrTerm) }

// undo brings everything back to where it was: the lock transaction, whatever
// reopen undoes, the routers, the watchdog. It runs on a context of its own, and on
// new sessions where the caller's context has broken the old ones.
func (w *window) undo(ctx context.Context, u undoing, cause error) (Outcome, error) {
	late, err := w.putBack(ctx, u)
	if late { // this process was stopped meanwhile: what it met then is no answer
		_, err = w.putBack(ctx, u)
	}
	switch {
	case stale(err):
		return w.overtaken(ctx, u, cause)
	case err != nil:
		return Ambiguous, halfUndone(u.d, errors.Join(cause, err))
	case w.paused.IsZero():
		return Refused, cause
	}
	return Aborted, aborted(u.d, cause)
}

// putBack is one try of it. It is late if the time for it was over before it was done.
func (w *window) putBack(ctx context.Context, u undoing) (late bool, err error) {
	clean, cancel := postgres.Cleanup(ctx)
	defer cancel()
	err = w.rec.always(clean, "undo", func(clean context.Context) error {
		errs := []error{rollbackTx(clean, u.tx)}
		w.shutDoors(clean)
		w.reviveSource(clean)
		if w.takenOver(clean) {
			return errors.Join(errTakenOver, w.disarm(clean))
		}
		if u.reopen != nil {
			w.revive(clean)
			errs = append(errs, u.reopen(clean))
		}
		if err := errors.Join(append(errs, w.resume(clean))...); err != nil {
			return err // the watchdog stays armed: it does what is left when this process ends
		}
		return w.disarm(clean)
	})
	return err != nil && clean.Err() != nil, err
}

// halfUndone is the failure of an attempt that did not commit and could not be undone
// everywhere.
func halfUndone(d Direction, cause error) error {
	return &migrate.Failure{Code: string(d) + ".half_undone", Message: "the switch was not committed, but it could not be undone everywhere", Exit: migrate.ExitAmbiguous,
		Hint: "mend the cause and run shardctl " + string(d) + " again: it undoes the rest first", Err: cause}
}

func rollbackTx(ctx context.Context, tx pgx.Tx) error {
	err := tx.Rollback(ctx)
	if err == nil || errors.Is(err, pgx.ErrTxClosed) || tx.Conn().IsClosed() {
		return nil // a session that is gone has rolled back
	}
	_ = tx.Conn().Close(ctx) // and so does one whose socket is closed
	return nil
}

// revive opens anew the sessions that are broken: a context that ends in the middle
// of a statement breaks its session, and so does the watchdog. One that cannot be had
// shows in what follows. The new sessions have no more right than the term gives.
func (w *window) revive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	w.reviveWithin(ctx)
}

// reviveWithin is revive for who has less time.
func (w *window) reviveWithin(ctx context.Context) {
	w.reviveSource(ctx)
	anew := make([]*pgx.Conn, len(w.cfg.Databases))
	_ = atOnce(w.cfg.databaseNames(), func(name string) (err error) {
		if conn := w.databases[name]; conn == nil || !answers(ctx, conn) {
			anew[w.place(name)], err = w.connectMember(ctx, name)
		}
		return err
	})
	for i, conn := range anew {
		if conn != nil {
			w.databases[w.cfg.Databases[i].Name] = conn
		}
	}
}

// connectMember opens a session to a database if it is the one that prepare made.
func (w *window) connectMember(ctx context.Context, name string) (*pgx.Conn, error) {
	conn, err := postgres.Connect(ctx, w.cfg.Databases[w.place(name)], w.name)
	if err != nil {
		return nil, err
	}
	if err := w.checkMember(ctx, name, conn); err != nil {
		postgres.CloseQuietly(ctx, conn)
		return nil, err
	}
	return conn, nil
}

func (w *window) reviveSource(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	if answers(ctx, w.side) {
		return
	}
	if conn, err := postgres.Connect(ctx, w.cfg.Source, w.name+" journal"); err == nil {
		w.side, w.rec.q = conn, conn
	}
}

// answers reports whether a session is alive. One that the server has ended is not
// known to be closed before it is used.
func answers(ctx context.Context, conn *pgx.Conn) bool {
	return !conn.IsClosed() && conn.Ping(ctx) == nil
}

// takenOver reports whether the source says that a later term is in force. A source
// that cannot be asked says nothing.
func (w *window) takenOver(ctx context.Context) bool {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	return err == nil && w.passed(owners)
}

// passed reports whether the source's rows say so.
func (w *window) passed(owners []store.Ownership) bool {
	return slices.ContainsFunc(owners, func(o store.Ownership) bool { return o.Term > w.term })
}

// agreeWait is how long a process that was overtaken waits for the other one's work.
const agreeWait = 10 * time.Second

// agreement waits until the source and every database say the same, which is what
// ends an attempt, and gives their standing.
func (w *window) agreement(ctx context.Context) (standing, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), agreeWait)
	defer cancel()
	for {
		w.revive(ctx)
		s, err := w.observe(ctx)
		if err == nil && s.settled() {
			return s, nil
		}
		if waitErr := sleep.For(ctx, 50*time.Millisecond); waitErr != nil {
			return s, errors.Join(err, fmt.Errorf("the servers do not agree on who owns the shards: %w", waitErr))
		}
	}
}

// overtaken says how an attempt ended that did not commit and was taken over: the
// watchdog has put everything back, or a later command has gone on from there.
func (w *window) overtaken(ctx context.Context, u undoing, cause error) (Outcome, error) {
	s, err := w.agreement(ctx)
	if err != nil {
		return Ambiguous, unknown(u.d, errors.Join(cause, err))
	}
	if err := w.letGo(ctx); err != nil {
		return Ambiguous, halfUndone(u.d, errors.Join(cause, err))
	}
	if s.epoch >= u.epoch {
		return Refused, &migrate.Failure{Code: string(u.d) + ".overtaken", Object: "lease operator", Exit: migrate.ExitLeaseHeld,
			Message: fmt.Sprintf("this process was held up, and another one has switched meanwhile (epoch %d)", s.epoch), Hint: "see shardctl status", Err: cause}
	}
	return Aborted, aborted(u.d, cause)
}

// letGo releases the routers if this attempt was the last to hold them: the watchdog could
// not, or the other process was done before. What another one holds is its own to release.
func (w *window) letGo(ctx context.Context) error {
	if w.paused.IsZero() {
		return nil
	}
	return w.letGoOf(ctx, w.rec.journal.Attempt)
}

// letGoOf does so for the attempt of a command that may be another.
func (w *window) letGoOf(ctx context.Context, attempt uuid.UUID) error {
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	held, err := store.Held(ctx, w.side, w.cfg.migration())
	if err != nil || held.Command == "" || held.Attempt != attempt {
		return err
	}
	return w.rec.always(ctx, "resume", w.resume)
}

// conclude follows the point of no return. Where the watchdog or a later command has
// taken over because this process was held up, their end is its end too, and the routers
// are theirs: a later command may hold them again.
func (w *window) conclude(ctx context.Context, d Direction, epoch int64) (Outcome, error) {
	ctx = context.WithoutCancel(ctx)
	err := w.finish(ctx)
	if err == nil {
		return Done, nil
	}
	w.revive(ctx)
	if !w.takenOver(ctx) {
		return Done, unfinished(d, err)
	}
	s, disagreed := w.agreement(ctx)
	kept := w.letGo(ctx)
	if disagreed == nil && kept == nil && w.carriedOut(ctx, s, epoch) {
		w.rec.report.Phase = phaseOf(s.owners)
		return Done, w.disarm(ctx)
	}
	return Done, unfinished(d, errors.Join(err, disagreed, kept))
}

// carriedOut reports whether a switch that this process has committed was brought to
// its end by another: the routers lead where that one, or a later one, says.
func (w *window) carriedOut(ctx context.Context, s standing, epoch int64) bool {
	if s.epoch > epoch {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	return s.epoch == epoch && w.leads(ctx, s.owners)
}

// unfinished is the failure of a switch that was committed and could not be carried
// out everywhere.
func unfinished(d Direction, cause error) error {
	return &migrate.Failure{Code: string(d) + ".unfinished", Message: "the switch is committed, but it could not be carried out everywhere", Exit: migrate.ExitError,
		Hint: "mend the cause and run shardctl " + string(d) + " again: it goes on from there", Err: cause}
}
