package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// commitReserve is the share of the budget kept for what follows the drains: commit,
// open, flip, release. An attempt that has used the rest before its commit aborts.
const commitReserve = 0.35

// window is one attempt: its sessions, its recorder, its budget.
type window struct {
	cfg       Config
	command   Direction
	name      string // of its sessions, as the servers show it
	tables    tables
	term      int64
	guards    int64     // for a watchdog: the term that was in force when it looked first
	lenient   bool      // a database that cannot be had is done without: for who ends another's window
	lock      *pgx.Conn // source: the lock transaction
	side      *pgx.Conn // source: journal and reads
	databases map[string]*pgx.Conn
	members   map[string]postgres.Identity // what prepare noted of each database
	others    []string                     // databases that the switch does not move and that answer
	leftover  []string                     // those of them that are not what the source says
	doors     map[string]*door             // by database, from the pre-lock on
	rec       *recorder
	applier   Applier
	guard     Watchdog
	armed     time.Time // when the watchdog's deadline began
	paused    time.Time // zero before the first PAUSE
}

// openWindow opens the sessions, and finds what the switch moves: cfg.Databases is that
// from then on. The caller closes it.
func openWindow(ctx context.Context, cfg Config, command Direction, report *Report) (*window, error) {
	return openAs(ctx, string(command), cfg, command, report)
}

// openAs is openWindow with the name that the servers see of the sessions.
func openAs(ctx context.Context, name string, cfg Config, command Direction, report *Report) (*window, error) {
	w := newWindow(name, cfg, command)
	return w, w.open(ctx, report)
}

func newWindow(name string, cfg Config, command Direction) *window {
	return &window{cfg: cfg, command: command, name: name, tables: newTables(cfg.Layout), databases: map[string]*pgx.Conn{}}
}

func (w *window) open(ctx context.Context, report *Report) (err error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	if w.lock, err = postgres.Connect(ctx, w.cfg.Source, w.name); err != nil {
		return err
	}
	if w.side, err = postgres.Connect(ctx, w.cfg.Source, w.name+" journal"); err != nil {
		return err
	}
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	if err != nil {
		return err
	}
	for _, o := range owners {
		w.guards = max(w.guards, o.Term)
	}
	if err := w.connectDatabases(ctx, owners); err != nil {
		return err
	}
	report.Databases = w.cfg.databaseNames()
	w.rec = &recorder{journal: store.NewJournal(w.cfg.migration(), string(w.command)), q: w.side, observe: w.cfg.Observe, report: report,
		about: map[string]any{"databases": w.cfg.databaseNames(), "max_pause_ms": w.cfg.MaxPause.Milliseconds()}}
	return nil
}

func (w *window) close(ctx context.Context) {
	w.shutDoors(ctx)
	postgres.CloseQuietly(ctx, w.lock)
	postgres.CloseQuietly(ctx, w.side)
	for _, conn := range w.databases {
		postgres.CloseQuietly(ctx, conn)
	}
}

// each runs fn for every database that the switch moves, at once, and joins the errors.
func (w *window) each(ctx context.Context, fn func(ctx context.Context, name string, conn *pgx.Conn) error) error {
	return w.eachOf(ctx, w.cfg.databaseNames(), fn)
}

// errNoSession says that a database could not be had so far.
var errNoSession = errors.New("there is no session to it")

func (w *window) eachOf(ctx context.Context, names []string, fn func(ctx context.Context, name string, conn *pgx.Conn) error) error {
	return atOnce(names, func(name string) error {
		if w.databases[name] == nil {
			return errNoSession
		}
		return fn(ctx, name, w.databases[name])
	})
}

// atOnce runs fn for some databases at once and joins the errors.
func atOnce(names []string, fn func(name string) error) error {
	var g errgroup.Group
	errs := make([]error, len(names))
	for i, name := range names {
		g.Go(func() error {
			errs[i] = migrate.At(name, fn(name))
			return nil
		})
	}
	_ = g.Wait() // fn's errors are in errs
	return errors.Join(errs...)
}

// routers runs fn for every router at once and joins the errors.
func (w *window) routers(fn func(i int) error) error {
	var g errgroup.Group
	errs := make([]error, len(w.cfg.Routers))
	for i := range w.cfg.Routers {
		g.Go(func() error { errs[i] = fn(i); return nil })
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// budget gives a context that ends when the part of max_pause that may be used
// before the commit is over.
func (w *window) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, w.paused.Add(time.Duration(float64(w.cfg.MaxPause)*(1-commitReserve))))
}

// ours refuses to hold anything in a process that was stopped on the way here: the
// watchdog may have acted since it was armed, or another command have switched.
func (w *window) ours(ctx context.Context) error {
	if !w.armed.IsZero() && time.Since(w.armed) > w.cfg.MaxPause/4 {
		return fmt.Errorf("held up for %s before PAUSE", time.Since(w.armed).Round(time.Millisecond))
	}
	if w.takenOver(ctx) {
		return errTakenOver
	}
	return nil
}

// pause holds all routers. If one cannot be held in a third of the budget, all
// are released.
func (w *window) pause(ctx context.Context) error {
	if err := w.ours(ctx); err != nil {
		return err
	}
	w.paused = time.Now()
	ctx, cancel := context.WithDeadline(ctx, w.paused.Add(w.cfg.MaxPause/3))
	defer cancel()
	return w.routers(func(i int) error { return w.cfg.Routers[i].Pause(ctx, w.scope()) })
}

// resume releases all routers, whatever the caller's context says.
func (w *window) resume(ctx context.Context) error {
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	err := w.routers(func(i int) error { return w.cfg.Routers[i].Resume(ctx) })
	w.rec.lazy = false
	if err == nil && !w.paused.IsZero() && w.rec.report.Pause.Router == nil {
		ms := float64(time.Since(w.paused).Microseconds()) / 1000
		w.rec.report.Pause.Router = &ms
	}
	return err
}

// checkTerm is the guard of every change: a process whose term was passed does nothing.
func (w *window) checkTerm(term int64) error {
	if term != w.term {
		return fmt.Errorf("term %d, ours is %d: %w", term, w.term, store.ErrTerm)
	}
	return nil
}

// own locks the source's ownership rows of the switch's databases alone, in one order,
// and checks the term.
func (w *window) own(ctx context.Context, tx pgx.Tx) ([]store.Ownership, error) {
	var owners []store.Ownership
	for _, name := range w.cfg.databaseNames() {
		o, err := store.ChangeOwnership(ctx, tx, w.cfg.migration(), name)
		if err != nil {
			return nil, err
		}
		if err := w.checkTerm(o.Term); err != nil {
			return nil, err
		}
		owners = append(owners, o)
	}
	return owners, nil
}

// boundLock lets the server end the lock transaction of a process that stopped:
// writers must not wait longer than the budget for a command that cannot go on.
func (w *window) boundLock(ctx context.Context) error {
	return postgres.QuickTimeouts(ctx, w.lock, w.cfg.MaxPause, w.cfg.MaxPause)
}

// aborted is the failure of an attempt that was undone in time.
func aborted(d Direction, cause error) error {
	return &migrate.Failure{Code: string(d) + ".aborted", Message: "aborted, traffic is where it was", Exit: migrate.ExitAborted,
		Hint: "mend the cause and run shardctl " + string(d) + " again", Err: cause}
}

// unknown is the failure of an attempt whose commit could not be read back.
func unknown(d Direction, cause error) error {
	return &migrate.Failure{Code: string(d) + ".ambiguous", Object: "source", Message: "it is not known whether the switch was committed; nothing was undone",
		Exit: migrate.ExitAmbiguous, Hint: "bring the source back, then run shardctl " + string(d) + " again: it decides from the source", Err: cause}
}
