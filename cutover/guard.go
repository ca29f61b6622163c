package cutover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// The watchdog's protocol, a line each way: the watchdog says "ready" when its
// sessions are open; "arm {json}" is answered "armed" and starts the deadline;
// "disarm" is answered "disarmed" and ends it. A pipe that closes while armed means
// that the command died: the watchdog acts at once.
const (
	sayReady    = "ready"
	sayArm      = "arm "
	sayArmed    = "armed"
	sayDisarm   = "disarm"
	sayDisarmed = "disarmed"
)

// arming is what "arm" carries.
type arming struct {
	Deadline time.Duration `json:"deadline"`
	Backends Backends      `json:"backends"`
}

// arm starts the watchdog, if there is one, and waits until it guards.
func (w *window) arm(ctx context.Context, d Direction, lock postgres.Backend) error {
	if w.cfg.Watchdog == nil {
		return nil
	}
	return w.rec.step(ctx, "watchdog", func(ctx context.Context) (err error) {
		side, err := postgres.ReadBackend(ctx, w.side)
		if err != nil {
			return err
		}
		if w.guard, err = w.cfg.Watchdog(ctx, Watch{Direction: d, Databases: w.cfg.databaseNames(), Deadline: w.cfg.MaxPause}); err != nil {
			return err
		}
		guarded := Backends{Attempt: w.rec.journal.Attempt, Source: []postgres.Backend{lock, side}, Doors: map[string]postgres.Backend{}}
		for name, d := range w.doors {
			guarded.Doors[name] = d.backend
		}
		if err := w.guard.Arm(ctx, guarded); err != nil {
			return err
		}
		w.armed = time.Now()
		return nil
	})
}

func (w *window) disarm(ctx context.Context) error {
	if w.guard == nil {
		return nil
	}
	guard := w.guard
	w.guard = nil
	return guard.Disarm(ctx)
}

// Guard is the watchdog's process: it opens its own sessions, guards windows as it
// is told on in, and returns when the pipe closes or after it has acted. Err says
// what it could not do; acted whether it had to. It never looks at ctx's signals
// in the middle of acting.
func Guard(ctx context.Context, cfg Config, d Direction, in io.Reader, out io.Writer) (acted bool, err error) {
	report := Report{}
	w, err := openAs(ctx, "watchdog", cfg, d, &report)
	defer w.close(ctx)
	if err != nil {
		return false, err
	}
	w.rec.journal = store.NewJournal(cfg.migration(), "watchdog")
	if _, err := fmt.Fprintln(out, sayReady); err != nil {
		return false, err
	}
	lines, over := make(chan string), make(chan struct{})
	defer close(over)
	go func() { // ends with the pipe; closes lines
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-over: // nobody listens any more
				return
			}
		}
	}()
	return w.guardLoop(ctx, d, lines, out)
}

func (w *window) guardLoop(ctx context.Context, d Direction, lines <-chan string, out io.Writer) (bool, error) {
	var a arming
	var deadline <-chan time.Time
	for {
		select {
		case <-deadline:
			return true, w.act(ctx, d, a.Backends)
		case line, open := <-lines:
			switch {
			case !open && deadline == nil:
				return false, nil
			case !open:
				return true, w.act(ctx, d, a.Backends)
			case line == sayDisarm:
				_, err := fmt.Fprintln(out, sayDisarmed)
				return false, err
			}
			if len(line) < len(sayArm) || json.Unmarshal([]byte(line[len(sayArm):]), &a) != nil {
				return false, fmt.Errorf("watchdog: unknown request %q", line)
			}
			deadline = time.After(a.Deadline)
			if _, err := fmt.Fprintln(out, sayArmed); err != nil {
				return false, err
			}
		}
	}
}

// act ends a window whose command died or hangs. First its backends are gone, then
// the term is raised in one committed transaction; only then it does what the owner
// that was found there says: undo and release, or finish. A database that cannot be
// reached does not keep the others' clients waiting, nor does a source that is lost at
// any point before it has said who the owner is.
func (w *window) act(ctx context.Context, d Direction, backends Backends) error {
	ctx = context.WithoutCancel(ctx)
	owners, doors, err := w.seize(ctx, backends)
	switch {
	case err == nil:
		w.paused = time.Now()
		if err = w.carryOut(ctx, owners); stale(err) {
			err = errors.Join(err, w.standAside(ctx, backends.Attempt))
		}
	case stale(err):
		err = errors.Join(err, w.standAside(ctx, backends.Attempt))
	case d == Forward:
		// The source cannot be asked, so nothing of the databases is touched: they stay closed.
		err = errors.Join(err, w.resume(ctx))
	default:
		err = errors.Join(err, w.releaseBack(ctx))
	}
	return errors.Join(doors, err)
}

// seize takes the window over and asks whose the shards are. What could not be done on
// the databases is an error of its own.
func (w *window) seize(ctx context.Context, backends Backends) (owners []store.Ownership, doors, err error) {
	fenced := make(chan struct{})
	go func() {
		defer close(fenced)
		err = w.fenceOff(ctx, backends)
	}()
	doors = w.breakDoors(ctx, backends)
	<-fenced
	if err == nil {
		err = w.raiseControls(ctx)
	}
	if err != nil {
		return nil, doors, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	owners, err = w.askOwners(ctx)
	return owners, doors, err
}

// standAside ends what a watchdog does whom a later command has overtaken: that one brings
// the attempt to its end, and what it holds is its own. Who is still held by the attempt
// alone is released, also where the source cannot be asked: nobody else may do it.
func (w *window) standAside(ctx context.Context, attempt uuid.UUID) error {
	w.reviveSource(ctx)
	err := w.letGoOf(ctx, attempt)
	if err != nil {
		err = errors.Join(err, w.resume(ctx))
	}
	return err
}

// actTimeout bounds each part of the take-over: clients wait meanwhile.
const actTimeout = 2 * time.Second

// breakDoors ends the sessions by which the guarded command would open or close
// a database, and those of a tick that it was stopped in.
func (w *window) breakDoors(ctx context.Context, backends Backends) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		if b, has := backends.Doors[name]; has {
			if err := postgres.TerminateBackend(ctx, conn, b); err != nil {
				return err
			}
		}
		return store.EvictSharers(ctx, conn, w.cfg.migration(), nil)
	})
}

// fenceOff makes the guarded command harmless on the source and takes the window
// over: its backends there are gone and the term is raised.
func (w *window) fenceOff(ctx context.Context, backends Backends) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	w.reviveSource(ctx)
	for _, b := range backends.Source {
		if err := postgres.TerminateBackend(ctx, w.side, b); err != nil {
			return err
		}
	}
	err := store.EvictSharers(ctx, w.side, w.cfg.migration(), w.cfg.databaseNames())
	if err != nil {
		return err
	}
	if w.term, err = store.NextTerm(ctx, w.side); err != nil {
		return err
	}
	return store.RaiseTerms(ctx, w.side, nil, w.cfg.migration(), w.term)
}

// raiseControls does the same on the databases.
func (w *window) raiseControls(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	return w.each(ctx, func(ctx context.Context, _ string, conn *pgx.Conn) error {
		if err := store.RaiseControlTerm(ctx, conn, w.cfg.migration(), w.term); err != nil && errors.Is(err, store.ErrTerm) {
			return err
		}
		return nil // one that cannot be reached is told of by what follows
	})
}

// releaseBack ends a rollback's window without the source: if fewer than all
// databases were closed, the source cannot have committed and cannot any more once
// the terms are raised, so they are opened. If all were, nothing is opened; nor where a
// later command is at work, which may have closed them for its own commit.
func (w *window) releaseBack(ctx context.Context) error {
	shut := make([]bool, len(w.cfg.Databases))
	bounded, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	err := w.each(bounded, func(ctx context.Context, name string, conn *pgx.Conn) (err error) {
		if err = w.outdate(ctx, conn); err == nil {
			shut[w.place(name)], err = w.tables.closed(ctx, conn, name)
		}
		return err
	})
	if err != nil || !slices.Contains(shut, false) {
		return errors.Join(err, w.resume(ctx), errors.New("all databases are closed and the source cannot be asked: a person must look"))
	}
	opening, stop := context.WithTimeout(ctx, max(heldTimeout, w.cfg.MaxPause))
	defer stop()
	err = w.each(opening, func(ctx context.Context, name string, conn *pgx.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			c, err := store.ChangeControl(ctx, tx, w.cfg.migration())
			if err != nil {
				return err
			}
			if c.Term > max(w.term, w.guards+1) {
				return w.checkTerm(c.Term)
			}
			return w.tables.openDatabase(ctx, tx, name)
		})
	})
	return errors.Join(err, w.resume(ctx))
}

// outdate makes the guarded command's term count for nothing on a database, unless that
// was done before the source was lost.
func (w *window) outdate(ctx context.Context, conn *pgx.Conn) error {
	c, err := store.LoadControl(ctx, conn, w.cfg.migration())
	switch {
	case err != nil:
		return err
	case c.Term == w.guards:
		return store.RaiseControlTerm(ctx, conn, w.cfg.migration(), c.Term+1)
	}
	return w.checkTerm(c.Term)
}
