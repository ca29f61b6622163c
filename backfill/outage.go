package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// outages remembers which servers failed, and when each is worth another try. A
// database that is down holds up only its own rows.
type outages struct {
	limit  time.Duration
	events *events

	mu      sync.Mutex
	servers map[string]*outage
}

type outage struct {
	since time.Time
	tries int
	until time.Time
}

// longestPause is between two tries of a server that stays away.
const longestPause = 10 * time.Second

func newOutages(limit time.Duration, e *events) *outages {
	return &outages{limit: limit, events: e, servers: map[string]*outage{}}
}

// over forgets the failures of a server that has answered.
func (o *outages) over(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.servers, server)
}

// note counts a failure that may pass; any other, and one that has lasted for
// too long, comes back.
func (o *outages) note(server string, err error) error {
	if !passing(err) {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	s := o.servers[server]
	if s == nil {
		s = &outage{since: now}
		o.servers[server] = s
	}
	if now.Before(s.until) {
		return nil // another worker has counted it
	}
	s.tries++
	if postgres.SQLState(err) == "55P03" {
		s.since = now // it answers, but a lock is not granted: no outage
	}
	if now.Sub(s.since) > o.limit {
		return migrate.Broken("backfill.outage", server, fmt.Sprintf("it has failed for %s, %d times", o.limit, s.tries), "mend it, then run `shardctl backfill` again: what is copied stays copied", err)
	}
	s.until = now.Add(min(100*time.Millisecond<<min(s.tries, 10), longestPause))
	o.events.emit(Event{Kind: EventUnreachable, Database: server, Message: err.Error()})
	return nil
}

// passing reports whether a failure may pass by itself; one that is a judgement of our own
// does not.
func passing(err error) bool {
	var f *migrate.Failure
	if errors.As(err, &f) && f.Err == nil {
		return false
	}
	return postgres.Passing(err) || errors.Is(err, errBehind)
}

// judge is note for a step that needs the server; it waits until the next try is
// due. No error is a sign of life.
func (o *outages) judge(ctx context.Context, server string, err error) error {
	if err == nil {
		o.over(server)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := o.note(server, err); err != nil {
		return err
	}
	return o.pauseFor(ctx, server)
}

// persist repeats a step until it succeeds, while its failures may pass.
func (o *outages) persist(ctx context.Context, server string, step func() error) error {
	for {
		err := step()
		if err == nil {
			o.over(server)
			return nil
		}
		if err := o.judge(ctx, server, err); err != nil {
			return err
		}
	}
}

// pauseFor waits until the next try of a server is due.
func (o *outages) pauseFor(ctx context.Context, server string) error {
	o.mu.Lock()
	s := o.servers[server]
	o.mu.Unlock()
	if s == nil {
		return nil
	}
	return sleep.For(ctx, time.Until(s.until))
}

// reachable are the servers that may be tried now; where that is none, it waits
// for the first.
func (o *outages) reachable(ctx context.Context, servers []string) ([]string, error) {
	for {
		o.mu.Lock()
		now := time.Now()
		var wait time.Duration
		out := slices.DeleteFunc(slices.Clone(servers), func(name string) bool {
			s := o.servers[name]
			if s == nil || !now.Before(s.until) {
				return false
			}
			if left := s.until.Sub(now); wait == 0 || left < wait {
				wait = left
			}
			return true
		})
		o.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		if err := sleep.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// pause waits a moment for a database that is out of reach.
func (o *outages) pause(ctx context.Context) error { return sleep.For(ctx, 100*time.Millisecond) }

// source is the name of the source among the servers.
const source = store.OwnerSource
