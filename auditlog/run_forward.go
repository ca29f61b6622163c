package auditlog

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/store"
)

// forward ticks for all databases that are level, together. One that fails, that
// takes too long or that is far behind goes on alone, and comes back when it is
// level: it holds back only itself.
func (s *service) forward(ctx context.Context) error {
	r := s.a.borrow()
	defer s.a.giveBack(r)
	together := append([]*database(nil), s.a.databases...)
	source := &attempt{s: s, direction: store.Forward, wait: newBackoff()}
	rest := tickSoon
	for {
		together = s.returned(together)
		if len(together) == 0 {
			select {
			case db := <-s.back:
				together = append(together, db)
			case <-s.stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		outcomes := r.locked(ctx, together, s.a.cfg.Patience)
		if err := s.allFailed(outcomes); err != nil {
			// The log's own side is down: nobody is apart for that.
			if stop := s.stops(ctx, "source", err); stop != nil {
				return stop
			}
			if !s.pause(ctx, source.failed(err)) {
				return ctx.Err()
			}
			continue
		}
		source.passed()
		var last Tick
		var err error
		if together, last, err = s.sort(ctx, outcomes); err != nil {
			return err
		}
		rest = nextRest(rest, last)
		if !s.pause(ctx, rest) {
			return ctx.Err()
		}
	}
}

// returned adds the databases that are level again.
func (s *service) returned(together []*database) []*database {
	for {
		select {
		case db := <-s.back:
			together = append(together, db)
		default:
			return together
		}
	}
}

// locked makes a tick for databases that it locks; those that are late stay
// locked until their own outcome comes.
func (r *reader) locked(ctx context.Context, databases []*database, patience time.Duration) []outcome {
	for _, db := range databases {
		db.mu.Lock()
	}
	outcomes := r.forward(ctx, databases, patience)
	for _, o := range outcomes {
		if o.late == nil {
			o.db.mu.Unlock()
		}
	}
	return outcomes
}

// allFailed gives the error of the log's side, if it failed for several databases and for
// all of them. Databases that fail all by themselves, such as on one slow disk, go on
// apart with more patience, however alike their errors are.
func (s *service) allFailed(outcomes []outcome) error {
	if len(outcomes) < 2 {
		return nil
	}
	for _, o := range outcomes {
		if o.err == nil || !o.log {
			return nil
		}
	}
	return outcomes[0].err
}

// sort keeps together the databases that are level, and sends the others on alone.
func (s *service) sort(ctx context.Context, outcomes []outcome) (together []*database, last Tick, err error) {
	cut := 0
	for _, o := range outcomes {
		if o.err == nil && o.tick.Cut {
			cut++
		}
	}
	for _, o := range outcomes { // first: whoever is late is still locked
		if o.late != nil {
			s.apart(ctx, o)
		}
	}
	for _, o := range outcomes {
		switch {
		case o.late != nil:
			continue
		case s.leaves(o):
			continue
		case o.err != nil:
			if stop := s.stops(ctx, o.db.name(), o.err); stop != nil {
				return nil, last, stop
			}
			if !errors.Is(o.err, errMoved) {
				s.apart(ctx, o)
				continue
			}
		default:
			s.took(o.tick)
			if o.tick.Cut && cut < len(outcomes) {
				s.apart(ctx, o)
				continue
			}
			last.Cut, last.Entries = last.Cut || o.tick.Cut, max(last.Entries, o.tick.Entries)
		}
		together = append(together, o.db)
	}
	return together, last, nil
}

// leaves reports whether a database is not brought forward any more in this tenure: it
// owns its shards, and the log has lost what it has not seen. Its everywhere tables follow
// the source no longer, which is told; its own writes still go back, and the others go on.
func (s *service) leaves(o outcome) bool {
	if !s.gapEnds(o.err) {
		return false
	}
	o.db.mu.Lock()
	moved := o.db.moved
	o.db.mu.Unlock()
	if !moved {
		return false
	}
	o.db.committed.lose()
	(&attempt{s: s, database: o.db.name(), direction: store.Forward, wait: newBackoff()}).failed(o.err)
	return true
}

// apart lets one database go on alone until it is level.
func (s *service) apart(ctx context.Context, o outcome) {
	s.g.Go(func() error {
		db := o.db
		retry := &attempt{s: s, database: db.name(), direction: store.Forward, wait: newBackoff()}
		if o.late != nil {
			retry.failed(o.err)
			late := <-o.late // its context ends with the service's
			db.mu.Unlock()
			o = late
		}
		r := s.a.borrow()
		defer s.a.giveBack(r)
		for {
			rest := time.Duration(0)
			switch {
			case s.leaves(o):
				return nil
			case o.err != nil:
				if stop := s.stops(ctx, db.name(), o.err); stop != nil {
					return stop
				}
				rest = retry.failed(o.err)
			case !o.tick.Cut:
				retry.passed()
				s.took(o.tick)
				s.back <- db // has room for every database
				return nil
			default:
				retry.passed()
				s.took(o.tick)
			}
			if !s.pause(ctx, rest) {
				return ctx.Err()
			}
			o = r.locked(ctx, []*database{db}, alone)[0]
		}
	})
}
