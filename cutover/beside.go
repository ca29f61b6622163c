package cutover

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
)

const (
	// besidePoll is how often the journal is looked at.
	besidePoll = 200 * time.Millisecond
	// besideGrace is how long the watchdog beside a command whose session is gone has to
	// act first: it does so at once.
	besideGrace = time.Second
)

// Released is what Beside tells of a window that it had to end.
type Released struct {
	Command   string
	Databases []string
	Held      time.Duration
	Err       error // what could not be done
}

// Beside watches, from a host of its own, for windows whose command died together with the
// watchdog beside it, as happens when their host is lost, and ends them as that watchdog
// would: it raises the term, and undoes and releases, or finishes, as the source's owners
// say. It waits for servers that cannot be reached. A window whose command lives is left
// alone until twice its max_pause and what a finish may take are over. It runs until ctx ends.
func Beside(ctx context.Context, cfg Config, tell func(Released)) error {
	b := &besider{cfg: cfg, tell: tell}
	defer func() {
		b.leave(ctx)
		postgres.CloseQuietly(ctx, b.source)
	}()
	for {
		if err := b.look(ctx); err != nil && ctx.Err() == nil && !postgres.Passing(err) {
			return err
		}
		if err := sleep.For(ctx, besidePoll); err != nil {
			return err
		}
	}
}

// besider is what Beside carries from look to look.
type besider struct {
	cfg    Config
	tell   func(Released)
	source *pgx.Conn // to look with while no switch is under way
	w      *window   // of the switch that holds the routers
	held   store.HeldWindow
	opened time.Time // when that was seen
	gone   time.Time // when its command was first seen to be gone; zero: it lives
}

// look looks once, and acts where that is due.
func (b *besider) look(ctx context.Context) error {
	if b.w == nil {
		return b.notice(ctx)
	}
	held, err := b.holding(ctx, b.w.side)
	if err == nil && held.Attempt != b.held.Attempt {
		b.leave(ctx) // it is over, or another one has begun
		return nil
	}
	if err != nil {
		b.w.reviveSource(ctx)
	}
	if !b.due(ctx, err) {
		return nil
	}
	end := Released{Command: b.held.Command, Databases: b.held.Databases, Held: time.Since(b.opened)}
	end.Err = b.w.act(ctx, Direction(b.held.Command), Backends{Attempt: b.held.Attempt})
	b.tell(end)
	b.leave(ctx)
	return nil
}

// notice opens the sessions that an end would need as soon as a switch holds the routers:
// the source may be lost next. A database may have been lost with the command: it is done
// without, as it is where that happens later.
func (b *besider) notice(ctx context.Context) error {
	if err := b.connect(ctx); err != nil {
		return err
	}
	held, err := b.holding(ctx, b.source)
	if err != nil || held.Command == "" {
		return err
	}
	cfg := b.cfg
	cfg.Only, cfg.MaxPause = held.Databases, max(held.MaxPause, cfg.MaxPause)
	w := newWindow("watchdog", cfg, Direction(held.Command))
	w.lenient = true
	if err := w.open(ctx, &Report{}); err != nil {
		w.close(ctx)
		return err
	}
	w.rec.journal = store.NewJournal(cfg.migration(), "watchdog")
	b.w, b.held, b.opened, b.gone = w, held, time.Now(), time.Time{}
	return nil
}

// connect opens the session to look with, where it is broken.
func (b *besider) connect(ctx context.Context) (err error) {
	if b.source != nil && !b.source.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	b.source, err = postgres.Connect(ctx, b.cfg.Source, "watchdog")
	return err
}

// holding reads who holds the routers. A source that does not answer is not waited for:
// its window is due all the same.
func (b *besider) holding(ctx context.Context, q postgres.Querier) (store.HeldWindow, error) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	return store.Held(ctx, q, b.cfg.migration())
}

// due reports whether the window has to be ended now.
func (b *besider) due(ctx context.Context, lookErr error) bool {
	if time.Since(b.opened) > 2*b.w.cfg.MaxPause+heldTimeout {
		return true
	}
	if lookErr != nil { // whether the command lives cannot be asked
		return time.Since(b.opened) > b.w.cfg.MaxPause+besideGrace
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	_, err := store.Holder(ctx, b.w.side, b.cfg.migration(), store.Operator)
	if !errors.Is(err, store.ErrNotFound) {
		b.gone = time.Time{}
		return false
	}
	if b.gone.IsZero() {
		b.gone = time.Now()
	}
	return time.Since(b.gone) > besideGrace
}

// leave closes the sessions of the window that was watched.
func (b *besider) leave(ctx context.Context) {
	if b.w != nil {
		b.w.close(ctx)
		b.w = nil
	}
}
