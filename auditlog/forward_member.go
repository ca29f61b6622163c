package auditlog

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/store"
)

// member is one database in a tick.
type member struct {
	db      *database
	in      *intake
	strays  map[int]bool // tables, by number, with keys of shards that are the database's own
	strayed int64
}

// apply applies what is staged for the database and notes where it stands then.
func (m *member) apply(ctx context.Context, g *group, now present) outcome {
	db, o := m.db, newOutcome(m.db)
	defer m.in.abandon(ctx)
	if o.err = m.in.err; o.err != nil {
		return o
	}
	ap := &application{db: db, in: m.in, next: g.next, cut: g.window.below > 0, retry: g.retry, retried: g.retried, tick: o.tick}
	o.err = ap.apply(ctx)
	if o.err != nil {
		if !own(o.err) && !isBeyond(o.err) {
			db.known = false
		}
		if errors.Is(o.err, ErrHeld) {
			o.tick.Held, o.err = true, nil
		}
		return o
	}
	o.tick = ap.tick
	o.tick.Took, o.tick.Number = time.Since(now.at), g.next.Tick
	o.tick.Entries, o.tick.Cut, o.tick.Strays = g.census.entries, ap.cut, m.strayed
	o.tick.Backlog = g.backlog
	db.parked = o.tick.Parked
	if g.retry {
		return o // its At stays zero: of the log it says nothing
	}
	o.tick.At = now.at
	db.pos = g.next
	db.committed.set(store.Forward, db.pos)
	db.after, db.whole = g.reached(now.now), !ap.cut
	db.extra, db.textual = nil, false
	db.proof.see(g.census)
	return o
}

func isBeyond(err error) bool {
	var beyond *beyondError
	return errors.As(err, &beyond)
}
