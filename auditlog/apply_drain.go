package auditlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// blockedShown bounds how many keys a refusal names.
const blockedShown = 5

// DrainForward brings the databases level with the source: with a tick each that
// is proven, by a probe written before it, to have seen all that was committed
// before the call.
func (a *Applier) DrainForward(ctx context.Context, databases []string) error {
	dbs, err := a.find(databases)
	if err != nil {
		return err
	}
	r := a.borrow()
	defer a.giveBack(r)
	conn, err := r.mark.get(ctx)
	if err != nil {
		return err
	}
	xid, err := a.plan.probe(ctx, conn, a.plan.tables)
	if err != nil {
		return err
	}
	for _, db := range dbs {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.proof = proof{xid: xid}
	}
	return drain(ctx, dbs, func(ctx context.Context, left []*database) []outcome { return r.forward(ctx, left, alone) },
		func(db *database) error { return db.proof.check(db.after, len(a.plan.tables)) })
}

// DrainReverse brings the source level with the databases, each with a tick that
// is proven by a probe written into the database's own log.
func (a *Applier) DrainReverse(ctx context.Context, databases []string) error {
	dbs, err := a.find(databases)
	if err != nil {
		return err
	}
	for _, db := range dbs {
		db.rev.mu.Lock()
		defer db.rev.mu.Unlock()
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, db := range dbs {
		g.Go(func() error { return migrate.At(db.name(), db.rev.mark(gctx)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	back := func(ctx context.Context, left []*database) []outcome {
		out := make([]outcome, len(left))
		var wait sync.WaitGroup
		for i, db := range left {
			wait.Go(func() { out[i] = db.rev.forth(ctx) })
		}
		wait.Wait()
		return out
	}
	return drain(ctx, dbs, back, func(db *database) error { return db.rev.proof.check(db.rev.after, len(db.rev.read.survey.tables)) })
}

// mark writes the probe that the last tick has to see.
func (v *reverser) mark(ctx context.Context) error {
	xid, err := v.probe(ctx)
	v.proof = proof{xid: xid}
	return err
}

// probe writes a probe into the database's log.
func (v *reverser) probe(ctx context.Context) (xid uint64, err error) {
	conn, err := v.read.mark.get(ctx)
	if err != nil {
		return 0, err
	}
	return v.db.a.plan.probe(ctx, conn, v.read.survey.tables)
}

// stallPatience is how long a database's ticks may fail for passing reasons, one after the
// other, before a drain gives up: a full disk or a held lock may stay for hours.
const stallPatience = 5 * time.Second

// stalls remembers since when each database's ticks have been failing.
type stalls map[*database]time.Time

// failed refuses to go on with a database that has been failing for too long.
func (s stalls) failed(db *database, err error) error {
	since, known := s[db]
	if !known {
		since = time.Now()
		s[db] = since
	}
	if time.Since(since) < stallPatience {
		return nil
	}
	return &migrate.Failure{Code: "drain.stalled", Object: db.name(), Message: fmt.Sprintf("it could not be brought level for %s", stallPatience),
		Hint: "mend the cause, then run the command again", Exit: migrate.ExitRefused, Err: err}
}

// drain ticks until every database is proven to be level. A transient error is
// tried again while the context lasts, but not for long without a tick between.
func drain(ctx context.Context, dbs []*database, tick func(context.Context, []*database) []outcome, check func(*database) error) error {
	left, failing := dbs, stalls{}
	for wait := time.Duration(0); len(left) > 0; {
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait = 0
		var again []*database
		for _, o := range tick(ctx, left) {
			switch {
			case o.err != nil && passing(o.err) && ctx.Err() == nil:
				if err := failing.failed(o.db, o.err); err != nil {
					return err
				}
				again, wait = append(again, o.db), 20*time.Millisecond
			case o.err != nil:
				return fmt.Errorf("drain: %w", migrate.At(o.db.name(), o.err))
			case o.tick.Held:
				return fmt.Errorf("drain: %w", migrate.At(o.db.name(), ErrHeld))
			case o.tick.Cut:
				delete(failing, o.db)
				again = append(again, o.db)
			default:
				if err := check(o.db); err != nil {
					return fmt.Errorf("drain: %w", migrate.At(o.db.name(), err))
				}
			}
		}
		left = again
	}
	return nil
}

// proof is a probe and whether a tick that was committed has seen it.
type proof struct {
	xid  uint64
	seen int // in the logs of how many tables
}

// see notes what a committed tick's batch held.
func (p *proof) see(c census) {
	if p.xid != 0 {
		p.seen += c.probes[p.xid]
	}
}

var errUnproven = errors.New("the last tick did not see the probe that was written before it")

func (p *proof) check(position snapshot, tables int) error {
	if tables > 0 && (p.seen != tables || !position.covers(p.xid)) {
		return fmt.Errorf("%w: found in %d of %d logs", errUnproven, p.seen, tables)
	}
	return nil
}

// ProveReverse makes sure that what will be written on the databases can come
// back: capture stands on each, and a probe that was written into its log is read
// from it.
func (a *Applier) ProveReverse(ctx context.Context, databases []string) error {
	dbs, err := a.find(databases)
	if err != nil {
		return err
	}
	errs := make([]error, len(dbs))
	var wait sync.WaitGroup
	for i, db := range dbs {
		wait.Go(func() {
			db.rev.mu.Lock()
			defer db.rev.mu.Unlock()
			if err := db.rev.prove(ctx); err != nil {
				errs[i] = fmt.Errorf("reverse capture of %s: %w", db.name(), err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (v *reverser) prove(ctx context.Context) error {
	if len(v.read.survey.tables) == 0 {
		return nil
	}
	if err := v.enter(ctx); err != nil { // the position that will be read from is there
		return err
	}
	conn, err := v.read.mark.get(ctx)
	if err != nil {
		return err
	}
	side := DatabaseSide(v.db.a.cfg.Layout, v.db.name())
	if _, err := NewWatch(side).Check(ctx, conn); err != nil {
		return err
	}
	if err := side.refuseReplaced(ctx, conn); err != nil {
		return err
	}
	xid, err := v.probe(ctx)
	if err != nil {
		return err
	}
	log, err := v.read.log.get(ctx)
	if err != nil {
		return err
	}
	look := survey{tables: map[int]bool{}}
	for _, t := range v.read.survey.tables {
		look.tables[t.No] = true
	}
	c, err := v.read.survey.count(ctx, log, v.db.a.plan, look, fmt.Sprintf("xid = '%d'::pg_catalog.xid8", xid))
	if err != nil {
		return err
	}
	if c.probes[xid] != len(v.read.survey.tables) {
		return errUnproven
	}
	return nil
}

// Blocked refuses, naming what stands in the way: keys that cannot be applied in
// that direction, or a gap. It is nil if nothing does.
func (a *Applier) Blocked(ctx context.Context, databases []string, reverse bool) error {
	dbs, err := a.find(databases)
	if err != nil {
		return err
	}
	for _, db := range dbs {
		if reverse {
			err = db.rev.blocked(ctx)
		} else {
			err = db.blocked(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (db *database) blocked(ctx context.Context) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	conn, err := db.write.get(ctx)
	if err != nil {
		return err
	}
	parked, err := db.a.ReadQuarantine(ctx, conn, db.name(), store.Forward, blockedShown+1)
	if err != nil {
		return err
	}
	if err := refuseParked(db.name(), parked); err != nil {
		return err
	}
	pos, err := store.LoadPosition(ctx, conn, db.a.migration(), db.name(), store.Forward)
	if err != nil {
		return err
	}
	r := db.a.borrow()
	defer db.a.giveBack(r)
	return r.checkGap(ctx, db.name(), store.Forward, pos)
}

func (v *reverser) blocked(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	conn, err := v.write.get(ctx)
	if err != nil {
		return err
	}
	parked, err := v.db.a.ReadQuarantine(ctx, conn, v.db.name(), store.Reverse, blockedShown+1)
	if err != nil {
		return err
	}
	if err := refuseParked(v.db.name(), parked); err != nil {
		return err
	}
	pos, err := store.LoadPosition(ctx, conn, v.db.a.migration(), v.db.name(), store.Reverse)
	if err != nil {
		return err
	}
	return v.read.checkGap(ctx, v.db.name(), store.Reverse, pos)
}

func (r *reader) checkGap(ctx context.Context, database string, d store.Direction, pos store.Position) error {
	conn, err := r.log.get(ctx)
	if err != nil {
		return err
	}
	return checkLog(ctx, conn, r.a.migration(), database, d, pos, r.id)
}

func refuseParked(database string, parked []Parked) error {
	if len(parked) == 0 {
		return nil
	}
	names := make([]string, 0, blockedShown+1)
	for i, p := range parked {
		if i == blockedShown {
			names = append(names, "…")
			break
		}
		names = append(names, p.String())
	}
	return migrate.Refuse("quarantine.not_empty", database, "keys could not be applied: "+strings.Join(names, "; "),
		"mend the rows on the side that owns them; the applier tries them again by itself")
}
