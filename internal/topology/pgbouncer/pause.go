package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/topology"
)

// drainPoll is how often a pooler that is being held is asked whether its servers are
// free. A transaction ends in milliseconds; what it answers costs it less than one.
const drainPoll = time.Millisecond

// heldBy is how a pooler was held.
type heldBy int

const (
	notKnown heldBy = iota // not by this Router, or not for certain
	byPooler               // bare PAUSE
	byEntry                // PAUSE of some entries, or of each one of ours
)

// Pause holds all instances at once. The first that fails ends the wait for the
// others, and all are released. An entry that stands for all shards is in every scope.
func (r *Router) Pause(ctx context.Context, scope topology.Scope) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := r.each(func(i *instance) error {
		err := i.pause(waiting, r, r.within(scope))
		if err != nil {
			cancel(errOther)
		}
		return err
	})
	if err == nil {
		return nil
	}
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer done()
	return errors.Join(err, r.each(func(i *instance) error {
		i.withdraw()
		return i.resume(clean, r)
	}))
}

// errOther is why an instance stopped waiting that had not failed itself.
var errOther = errors.New("another instance could not be held")

// pause holds some of our entries of one instance and waits until no server of
// theirs is in use.
func (i *instance) pause(ctx context.Context, r *Router, entries []entry) error {
	i.pauseMu.Lock()
	defer i.pauseMu.Unlock()
	i.held = notKnown
	shown, err := i.databases(ctx)
	if err != nil {
		return err
	}
	how, commands := byPooler, []string{"PAUSE"}
	if len(entries) < len(r.entries) || r.shares(shown) {
		how, commands = byEntry, each("PAUSE", names(entries))
	}
	if err := i.noteRetry(ctx); err != nil {
		return err
	}
	c, err := i.pausingLocked(ctx)
	if err != nil {
		return err
	}
	if err := i.letLogIn(ctx, c, entries); err != nil {
		return err
	}
	commands = append([]string{retryAtOnce}, commands...)
	pools, refused, err := c.askThen(ctx, "SHOW POOLS", commands...)
	for _, e := range refused {
		// Held already, by a process that died or by an operator: its drain is waited for below.
		if !strings.Contains(e.Message, "already suspended/paused") {
			return i.failed("PAUSE", e)
		}
	}
	busy := busyOf(pools, entries)
	for err == nil && len(busy) > 0 {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(drainPoll):
			if pools, _, err = c.askThen(ctx, "SHOW POOLS"); err == nil {
				busy = busyOf(pools, entries)
			}
		}
	}
	if err != nil && len(busy) > 0 {
		err = fmt.Errorf("transactions are still open through %s: %w", shorten(strings.Join(busy, ", ")), err)
	}
	if err != nil {
		return i.failed("PAUSE", err)
	}
	i.held, i.heldEntries = how, names(entries)
	return nil
}

// busyOf names the entries through which a server is in use. The pooler itself
// counts these states, and no others, when it decides that a PAUSE is done.
func busyOf(pools answer, entries []entry) []string {
	return serversIn(pools, entries, "sv_active", "sv_active_cancel", "sv_tested")
}

// serversIn names the entries that have servers in these states, with how many.
func serversIn(pools answer, entries []entry, states ...string) []string {
	var found []string
	wanted := map[string]bool{}
	for _, e := range entries {
		wanted[e.name] = true
	}
	for _, row := range pools.rows {
		name, servers := pools.column(row, "database"), 0
		for _, state := range states {
			n, _ := strconv.Atoi(pools.column(row, state))
			servers += n
		}
		if servers > 0 && wanted[name] {
			found = append(found, fmt.Sprintf("%s (%d)", name, servers))
		}
	}
	slices.Sort(found)
	return found
}

// withdraw takes a PAUSE back that the pooler may read later than it answers others, on
// the connection that it went. That is not used again: the pooler would answer the
// waiting PAUSE when a later one is done.
func (i *instance) withdraw() {
	i.pauseMu.Lock()
	defer i.pauseMu.Unlock()
	i.held = notKnown
	if i.pausing == nil {
		return
	}
	var more []string
	if i.retry != "" {
		more = append(more, setRetry(i.retry))
	}
	if i.pausing.takeBack(more...) {
		i.withdrawn = append(i.withdrawn, i.pausing)
	} else {
		i.pausing.close()
	}
	i.pausing = nil
}

// Resume releases all instances, whoever holds them: also an operator's bare PAUSE, as
// that cannot be told from one of a command of ours that died.
func (r *Router) Resume(ctx context.Context) error {
	return r.each(func(i *instance) error { return i.resume(ctx, r) })
}

func (i *instance) resume(ctx context.Context, r *Router) error {
	how, held, retry := i.takeHeld()
	commands := []string{"RESUME"}
	switch how {
	case byEntry:
		commands = each("RESUME", held)
	case notKnown:
		return errors.Join(i.release(ctx, r), i.restoreRetry(ctx, retry))
	}
	_, refused, err := i.ask(ctx, "SHOW VERSION", commands...)
	return errors.Join(err, i.notReleased(refused), i.restoreRetry(ctx, retry))
}

// takeHeld gives what a Pause left. While one still waits, nothing is known.
func (i *instance) takeHeld() (how heldBy, entries []string, retry string) {
	if !i.pauseMu.TryLock() {
		return notKnown, nil, ""
	}
	defer i.pauseMu.Unlock()
	how, entries, retry = i.held, i.heldEntries, i.retry
	i.held, i.heldEntries, i.retry = notKnown, nil, ""
	return how, entries, retry
}

// release looks and releases until a look finds nothing held.
func (i *instance) release(ctx context.Context, r *Router) error {
	for {
		// A RESUME that is not refused means that the whole pooler was held.
		a, refused, err := i.ask(ctx, "SHOW DATABASES", "RESUME")
		if err := errors.Join(err, i.notReleased(refused)); err != nil {
			return err
		}
		var paused []string
		for name, d := range databasesOf(a) {
			if d.paused && r.ours(name) {
				paused = append(paused, name)
			}
		}
		if len(refused) > 0 && len(paused) == 0 {
			return nil
		}
		_, refused, err = i.ask(ctx, "SHOW VERSION", each("RESUME", paused)...)
		if err := errors.Join(err, i.notReleased(refused)); err != nil {
			return err
		}
	}
}

// notReleased gives the refusals that do not say that nothing was held.
func (i *instance) notReleased(refused []*pgconn.PgError) error {
	for _, e := range refused {
		if !strings.Contains(e.Message, "not paused") && !strings.Contains(e.Message, "no such database") {
			return i.failed("RESUME", e)
		}
	}
	return nil
}

// each writes a command for every entry.
func each(command string, names []string) []string {
	commands := make([]string, len(names))
	for n, name := range names {
		commands[n] = command + " " + word(name)
	}
	return commands
}

// word writes a name as the console takes it: its buffer is short, so quotes stand only
// where they must.
func word(name string) string {
	for _, c := range []byte(name) {
		if !isName(c) || c == '.' || c == '-' || c == '*' {
			return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
	}
	return name
}
