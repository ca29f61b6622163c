package auditlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/store"
)

const (
	// tickSoon follows a tick that found something, tickLate one that found nothing
	// for a while: a log that is asked twenty times a second costs the source nothing
	// that shows, and five times is enough for one that is quiet.
	tickSoon = 20 * time.Millisecond
	tickLate = 200 * time.Millisecond
)

// service is one tenure's work.
type service struct {
	a    *Applier
	goal *goal
	stop chan struct{} // closed once, when no further tick is to begin
	once sync.Once
	why  error // set before stop is closed
	back chan *database
	g    *errgroup.Group

	lease *store.Lease
	rates *rates
}

// serve ticks until the context ends, an operator asks for the lease, the goal is
// reached, or an error does not pass.
func (a *Applier) serve(ctx context.Context, lease *store.Lease, goal *goal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &service{a: a, goal: goal, stop: make(chan struct{}), back: make(chan *database, len(a.databases)), lease: lease, rates: newRates()}
	s.g, ctx = errgroup.WithContext(ctx)
	s.g.Go(func() error { return s.listen(ctx, cancel) })
	s.g.Go(func() error { return s.forward(ctx) })
	if !a.cfg.ForwardOnly {
		for _, db := range a.databases {
			s.g.Go(func() error { return s.reverse(ctx, db) })
		}
	}
	s.g.Go(func() error { return s.tend(ctx) })
	if a.cfg.Delta != nil {
		s.g.Go(func() error { return s.check(ctx) })
	}
	err := s.g.Wait()
	if s.stopped() && (err == nil || errors.Is(err, context.Canceled)) {
		return s.why
	}
	return err
}

// end lets no further tick begin.
func (s *service) end(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.stop)
	})
}

func (s *service) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// pause waits for the next tick; false: there is none.
func (s *service) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.stop:
	case <-timer.C:
		return true
	}
	return false
}

// listen waits for an operator's request. What is under way then has a moment to
// end by itself; the rest is rolled back.
func (s *service) listen(ctx context.Context, cancel context.CancelFunc) error {
	source := link{target: s.a.cfg.Source, purpose: "catchup listen"}
	defer source.close(ctx)
	for s.pause(ctx, requestPoll) {
		conn, err := source.get(ctx)
		if err == nil {
			var asked bool
			if asked, err = store.HandoverRequested(ctx, conn, s.a.migration()); asked {
				s.end(errHandover)
			}
		}
		if err != nil && !passing(err) {
			return err
		}
	}
	if !s.stopped() {
		return ctx.Err()
	}
	timer := time.AfterFunc(handoverGrace, cancel)
	context.AfterFunc(ctx, func() { timer.Stop() })
	return nil
}

// took tells of a tick and ends the service when that reaches the goal.
func (s *service) took(t Tick) {
	kind := Ticked
	switch {
	case t.Held:
		kind = Holding
	case t.Parked > 0:
		kind = Quarantined
	}
	s.rates.note(t)
	s.lease.NoteRate(s.rates.perSecond())
	s.a.cfg.Observe(Progress{Kind: kind, Database: t.Database, Direction: t.Direction, Tick: t})
	if s.goal.note(t) {
		s.end(errReached)
	}
}

// stops is the error that ends the service, or nil for one that passes.
func (s *service) stops(ctx context.Context, database string, err error) error {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, errMoved):
		return ctx.Err()
	case passing(err):
		return nil
	}
	return fmt.Errorf("%s: %w", database, err)
}

// reverse ticks back while a database owns its shards. Owners change only with the
// lease, so each tenure looks once.
func (s *service) reverse(ctx context.Context, db *database) error {
	v := db.rev
	retry := &attempt{s: s, database: db.name(), direction: store.Reverse, wait: newBackoff()}
	rest := tickSoon
	for {
		o := outcome{db: db, tick: Tick{Database: db.name(), Direction: store.Reverse}}
		owns, err := v.owns(ctx)
		if err == nil && !owns {
			s.goal.expect(db.name(), false)
			return nil
		}
		if err == nil {
			s.goal.expect(db.name(), true)
			v.mu.Lock()
			o = v.forth(ctx)
			v.mu.Unlock()
			err = o.err
		}
		if s.gapEnds(err) {
			retry.failed(err)
			s.goal.expect(db.name(), false)
			return nil
		}
		if err != nil {
			if stop := s.stops(ctx, db.name(), err); stop != nil {
				return stop
			}
			if !s.pause(ctx, retry.failed(err)) {
				return ctx.Err()
			}
			continue
		}
		retry.passed()
		s.took(o.tick)
		rest = nextRest(rest, o.tick)
		if !s.pause(ctx, rest) {
			return ctx.Err()
		}
	}
}

// gapEnds reports whether an error is a gap that only ends the possibility of a rollback,
// if the database owns its shards: the other ways go on without it.
func (s *service) gapEnds(err error) bool {
	return IsGap(err) && !s.goal.options.Once && s.goal.options.UntilLag == 0
}

// owns reads from the control row whether the shards are the database's.
func (v *reverser) owns(ctx context.Context) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	conn, err := v.hold.get(ctx)
	if err != nil {
		return false, err
	}
	c, err := store.LoadControl(ctx, conn, v.db.a.migration())
	return c.Owner == v.db.name(), err
}

// nextRest adapts the pause between ticks to what the last one found.
func nextRest(rest time.Duration, t Tick) time.Duration {
	switch {
	case t.Cut:
		return 0
	case t.Entries > 0:
		return tickSoon
	}
	return min(max(2*rest, tickSoon), tickLate)
}

// attempt tells of a database that is tried again and again.
type attempt struct {
	s         *service
	database  string
	direction store.Direction
	wait      *backoff
	first     error
}

// failed tells why, with the first and the last error, and gives the pause.
func (t *attempt) failed(err error) time.Duration {
	if t.first == nil {
		t.first = err
	}
	pause := t.wait.next()
	t.s.a.cfg.Observe(Progress{Kind: Waiting, Database: t.database, Direction: t.direction, Err: err, First: t.first, Tries: t.wait.tries})
	return pause
}

func (t *attempt) passed() {
	if t.first != nil {
		t.s.a.cfg.Observe(Progress{Kind: Recovered, Database: t.database, Direction: t.direction, First: t.first, Tries: t.wait.tries})
	}
	t.first, t.wait = nil, newBackoff()
}

// check runs the delta check between ticks.
func (s *service) check(ctx context.Context) error {
	for {
		for _, db := range s.a.databases {
			if !s.pause(ctx, deltaPause) {
				return ctx.Err()
			}
			if err := s.a.cfg.Delta.DeltaCheck(ctx, db.name()); err != nil && ctx.Err() == nil {
				s.a.cfg.Observe(Progress{Kind: Tended, Database: db.name(), Err: err})
			}
		}
	}
}

// deltaPause spaces delta checks: each reads the keys that were written since the last one.
const deltaPause = 2 * time.Second
