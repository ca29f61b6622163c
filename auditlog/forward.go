package auditlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// outcome is what a tick came to for one database.
type outcome struct {
	db   *database
	tick Tick
	err  error
	log  bool           // err is that of the log's side
	late <-chan outcome // errStalled: the database is still at it; until this comes it belongs to no one else
}

// Forward makes one tick forward for the named databases, or for all: those at one
// position share the reading of the log. The error joins those of the databases;
// the ticks of the others stand.
func (a *Applier) Forward(ctx context.Context, names ...string) ([]Tick, error) {
	databases, err := a.find(names)
	if err != nil {
		return nil, err
	}
	r := a.borrow()
	defer a.giveBack(r)
	for _, db := range databases {
		db.mu.Lock()
		defer db.mu.Unlock()
	}
	return ticksOf(r.forward(ctx, databases, alone))
}

func ticksOf(outcomes []outcome) ([]Tick, error) {
	var ticks []Tick
	var errs []error
	for _, o := range outcomes {
		if o.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.db.name(), o.err))
			continue
		}
		ticks = append(ticks, o.tick)
	}
	return ticks, errors.Join(errs...)
}

// alone is the patience of a tick that nobody else waits for.
const alone = time.Minute

// secondTries bounds how often one tick starts over for a database: each time it
// knows more of what stands in its way.
const secondTries = 8

// forward makes one tick for databases that the caller has locked. Where a
// database's part failed for a reason that the next attempt avoids, it is made again;
// then keys in quarantine have their turn.
func (r *reader) forward(ctx context.Context, databases []*database, patience time.Duration) []outcome {
	out := map[*database]outcome{}
	r.enter(ctx, databases, patience, out)
	r.tick(ctx, groups(ready(databases, out)), patience, out)
	for range secondTries {
		var again []*database
		for _, db := range databases {
			if o := out[db]; o.err != nil && db.learn(o.err) {
				again = append(again, db)
			}
		}
		if len(again) == 0 {
			break
		}
		r.enter(ctx, again, patience, out)
		r.tick(ctx, groups(ready(again, out)), patience, out)
	}
	r.retry(ctx, ready(databases, out), patience, out)
	list := make([]outcome, len(databases))
	for i, db := range databases {
		list[i] = out[db]
	}
	return list
}

// ready are the databases that a tick can go on with.
func ready(databases []*database, out map[*database]outcome) (list []*database) {
	for _, db := range databases {
		if o := out[db]; o.err == nil && !o.tick.Held {
			list = append(list, db)
		}
	}
	return list
}

// learn takes from an error what the next attempt must know. It reports whether
// there is a point in one.
func (db *database) learn(err error) bool {
	var beyond *beyondError
	switch {
	case errors.As(err, &beyond):
		if db.extra == nil {
			db.extra = map[int][]string{}
		}
		for no, keys := range beyond.keys {
			db.extra[no] = append(db.extra[no], keys...)
		}
		return true
	case errors.Is(err, errMoved):
		return true
	case own(err) && !db.textual:
		db.textual = true
		return true
	}
	return false
}

// retry makes a tick of their own for keys in quarantine.
func (r *reader) retry(ctx context.Context, databases []*database, patience time.Duration, out map[*database]outcome) {
	var gs []*group
	for _, db := range databases {
		if db.parked == 0 || time.Since(db.retriedAt) < r.a.retryPause {
			continue
		}
		db.retriedAt = time.Now()
		conn, err := db.write.get(ctx)
		if err == nil {
			var keys []parked
			if keys, err = db.ward().due(ctx, conn, len(r.a.plan.locations(db.place))); err == nil && len(keys) > 0 {
				gs = append(gs, retryGroup(db, keys))
			}
		}
		if err != nil {
			out[db] = outcome{db: db, tick: out[db].tick, err: err}
		}
	}
	r.tick(ctx, gs, patience, out)
}

// sum adds a later outcome of the same tick to what there is.
func (o outcome) sum(later outcome) outcome {
	t, before := later.tick, o.tick
	t.Entries, t.Rows, t.Deletes, t.Strays = t.Entries+before.Entries, t.Rows+before.Rows, t.Deletes+before.Deletes, t.Strays+before.Strays
	t.Cut, t.Number = t.Cut || before.Cut, max(t.Number, before.Number)
	if t.At.IsZero() || !before.At.IsZero() && before.At.Before(t.At) {
		t.At = before.At
	}
	later.tick = t
	return later
}

// enter reads where each database stands; of all at once, so that one that is down
// costs the others no more than their patience.
func (r *reader) enter(ctx context.Context, databases []*database, patience time.Duration, out map[*database]outcome) {
	results := make([]outcome, len(databases))
	var wait sync.WaitGroup
	for i, db := range databases {
		results[i] = newOutcome(db)
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			results[i].err = db.enter(ctx)
			results[i].tick.Held = results[i].err == nil && db.held
		})
	}
	wait.Wait()
	for _, o := range results {
		out[o.db] = o
	}
}

func newOutcome(db *database) outcome {
	return outcome{db: db, tick: Tick{Database: db.name(), Direction: store.Forward, Parked: db.parked}}
}

// tick reads one snapshot for all groups and applies each group's batch to its
// databases. What comes of it is added to out.
func (r *reader) tick(ctx context.Context, gs []*group, patience time.Duration, out map[*database]outcome) {
	note := func(o outcome) { out[o.db] = out[o.db].sum(o) }
	busy := r.awake(ctx, gs, note)
	if len(busy) == 0 {
		return
	}
	tx, now, err := r.open(ctx, r.readable())
	if err != nil {
		for _, g := range busy {
			g.fail(err, note)
		}
		return
	}
	markers := map[string]store.Marker{}
	for _, g := range busy {
		if err := r.read(ctx, tx, g, now, markers, patience, note); err != nil {
			g.fail(err, note)
		}
	}
	r.end(ctx, tx)
	r.pace(time.Since(now.at))
	r.applyAll(ctx, busy, now, patience, note)
}

// applyAll applies to all databases at once. One that takes longer than the
// patience of the others is left behind: its outcome comes later.
func (r *reader) applyAll(ctx context.Context, gs []*group, now present, patience time.Duration, note func(outcome)) {
	type running struct {
		db   *database
		done chan outcome
	}
	var all []running
	for _, g := range gs {
		for _, m := range g.members {
			run := running{m.db, make(chan outcome, 1)}
			all = append(all, run)
			go func() { run.done <- m.apply(ctx, g, now) }()
		}
	}
	var late <-chan time.Time
	if patience < alone {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	for _, run := range all {
		select {
		case o := <-run.done:
			note(o)
			continue
		default:
		}
		select {
		case o := <-run.done:
			note(o)
		case <-late:
			expired := make(chan time.Time)
			close(expired)
			late = expired // for all that follow
			// Nothing of the database may be read here: its own goroutine writes it.
			note(outcome{db: run.db, err: errStalled, late: run.done})
		}
	}
}

// readable are all relations that a tick may read.
func (r *reader) readable() []string {
	out := r.a.plan.allLogs()
	for _, t := range r.a.plan.tables {
		out = append(out, t.QualifiedSource())
	}
	return out
}

// awake gives the groups for which the log has something new. The others need no
// lock and no snapshot, and nothing is stored for them.
func (r *reader) awake(ctx context.Context, gs []*group, note func(outcome)) (busy []*group) {
	for _, g := range gs {
		at := time.Now()
		quiet, err := r.quiet(ctx, g, note)
		switch {
		case err != nil:
			g.fail(err, note)
		case !quiet:
			busy = append(busy, g)
		default:
			g.rest(at, note)
		}
	}
	return busy
}

// quiet reports whether a group's logs have nothing new. It looks for a gap too: a
// log that was stopped has nothing new either.
func (r *reader) quiet(ctx context.Context, g *group, note func(outcome)) (bool, error) {
	if g.retry {
		return false, nil
	}
	conn, err := r.log.get(ctx)
	if err != nil {
		return false, err
	}
	look, err := r.survey.look(ctx, conn, g.after, 1)
	if err != nil || !look.empty() {
		return false, err
	}
	return true, r.checkLogs(ctx, conn, g, note)
}

// checkLogs takes the databases out of a group for which the log has a gap.
func (r *reader) checkLogs(ctx context.Context, q postgres.Querier, g *group, note func(outcome)) error {
	var whole []*database
	for _, db := range g.databases {
		err := checkLog(ctx, q, r.a.migration(), db.name(), store.Forward, db.pos, r.id)
		if err == nil {
			whole = append(whole, db)
			continue
		}
		if migrate.ExitCode(err) != migrate.ExitRefused {
			return err
		}
		db.known = false
		o := newOutcome(db)
		o.err = err
		note(o)
	}
	g.databases = whole
	return nil
}

// rest notes a tick that found nothing.
func (g *group) rest(at time.Time, note func(outcome)) {
	for _, db := range g.databases {
		o := newOutcome(db)
		o.tick.At, o.tick.Took = at, time.Since(at)
		note(o)
	}
}

// fail gives every database of the group that is still in the tick an error of the log's
// side.
func (g *group) fail(err error, note func(outcome)) {
	for _, m := range g.members {
		m.in.abandon(context.Background())
	}
	g.members = nil
	for _, db := range g.databases {
		db.known = false
		o := newOutcome(db)
		o.err, o.log = err, true
		note(o)
	}
	g.databases = nil
}
