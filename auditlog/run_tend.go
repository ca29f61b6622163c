package auditlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/store"
)

const (
	// tendPause is how often logs are rotated and watched.
	tendPause = time.Second
	// databaseRounds is how many rounds pass between two looks at a database's log:
	// with a schema per shard one look reads hundreds of tables' catalog rows.
	databaseRounds = 5
	// prunePause is how often tombstones and markers are pruned.
	prunePause = 30 * time.Second
	// keepMarkers is longer than any replica that a backfill reads may lag.
	keepMarkers = time.Hour
)

// durable is the last positions of a database that are known to be committed, and those
// of which only the database knows whether they are: the answer to a commit can be lost.
type durable struct {
	mu      sync.Mutex
	forward *store.Position
	reverse *store.Position
	trying  map[store.Direction]uuid.UUID // markers of positions whose commit was asked for
	lost    bool                          // what lies beyond forward is lost in part: nothing is kept for it
}

// ask notes, before its commit, the marker of a position.
func (d *durable) ask(direction store.Direction, marker uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trying == nil {
		d.trying = map[store.Direction]uuid.UUID{}
	}
	d.trying[direction] = marker
}

// markers are those that the database's position may name.
func (d *durable) markers(direction store.Direction) []uuid.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []uuid.UUID
	if p := d.at(direction); p != nil {
		out = append(out, p.Marker)
	}
	if m, there := d.trying[direction]; there {
		out = append(out, m)
	}
	return out
}

// lose gives up the forward position: no log is kept for it any more.
func (d *durable) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
}

func (d *durable) isLost(direction store.Direction) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost && direction == store.Forward
}

func (d *durable) set(direction store.Direction, p store.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.trying, direction)
	if direction == store.Forward {
		d.forward, d.lost = &p, false
	} else {
		d.reverse = &p
	}
}

func (d *durable) get(direction store.Direction) *store.Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at(direction)
}

func (d *durable) at(direction store.Direction) *store.Position {
	if direction == store.Forward {
		return d.forward
	}
	return d.reverse
}

// tend keeps logs, markers and tombstones small between ticks, and watches for
// DDL. What fails for now is told and tried again; drift and a gap are stops.
func (s *service) tend(ctx context.Context) error {
	t := &tender{s: s, watches: map[string]*Watch{}, links: map[string]*link{}}
	defer t.close(ctx)
	for round := 0; s.pause(ctx, tendPause); round++ {
		prune := round%databaseRounds == 0 && time.Since(t.pruned) > prunePause
		err := t.side(ctx, SourceSide(s.a.cfg.Layout), nil, prune)
		if stop := t.tell(ctx, "", err); stop != nil {
			return stop
		}
		for _, db := range s.a.databases {
			if round%databaseRounds != 0 {
				continue
			}
			err := t.database(ctx, db, prune)
			if stop := t.tell(ctx, db.name(), err); stop != nil {
				return stop
			}
		}
		if prune {
			t.pruned = time.Now()
		}
	}
	return ctx.Err()
}

// tender is what tend carries from round to round.
type tender struct {
	s       *service
	watches map[string]*Watch
	links   map[string]*link
	pruned  time.Time
}

func (t *tender) close(ctx context.Context) {
	for _, l := range t.links {
		l.close(ctx)
	}
}

// tell reports what failed; it gives the error if that stops the applier.
func (t *tender) tell(ctx context.Context, database string, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrNotFound) {
		return ctx.Err()
	}
	if !passing(err) {
		return err
	}
	t.s.a.cfg.Observe(Progress{Kind: Tended, Database: database, Err: err})
	return nil
}

// database tends one database: its tombstones, and its log if its writes go back.
func (t *tender) database(ctx context.Context, db *database, prune bool) error {
	if db.committed.get(store.Forward) == nil {
		return nil // never reached: its own ticks say so
	}
	if prune {
		if err := t.prune(ctx, db); err != nil {
			return err
		}
	}
	if db.committed.get(store.Reverse) == nil {
		return nil
	}
	return t.side(ctx, DatabaseSide(t.s.a.cfg.Layout, db.name()), db, prune)
}

func (t *tender) prune(ctx context.Context, db *database) error {
	source, err := t.link(SourceSide(t.s.a.cfg.Layout), nil).get(ctx)
	if err != nil {
		return err
	}
	conn, err := t.link(DatabaseSide(t.s.a.cfg.Layout, db.name()), db).get(ctx)
	if err != nil {
		return err
	}
	return t.s.a.PruneTombstones(ctx, source, conn, db.name())
}

func (t *tender) link(side Side, db *database) *link {
	l := t.links[side.Name()]
	if l == nil {
		l = &link{target: t.s.a.cfg.Source, purpose: "catchup tend"}
		if db != nil {
			l.target = db.write.target
		}
		t.links[side.Name()] = l
	}
	return l
}

// side watches, measures and rotates one side's log.
func (t *tender) side(ctx context.Context, side Side, db *database, prune bool) error {
	conn, err := t.link(side, db).get(ctx)
	if err != nil {
		return err
	}
	watch := t.watches[side.Name()]
	if watch == nil {
		watch = NewWatch(side)
		t.watches[side.Name()] = watch
	}
	if _, err := watch.Check(ctx, conn); err != nil {
		return err
	}
	if _, err := side.CheckSize(ctx, conn); err != nil {
		return err
	}
	texts, markers := t.positions(side)
	if retain := t.s.a.cfg.Retain; retain != nil && len(texts) > 0 {
		more, err := retain(ctx, side)
		if err != nil {
			return err
		}
		texts = append(texts, more...)
	}
	if _, err := side.Rotate(ctx, conn, texts, DefaultSegment); err != nil {
		return err
	}
	if prune && len(markers) > 0 {
		return store.PruneMarkers(ctx, conn, t.s.a.migration(), keepMarkers, markers)
	}
	return nil
}

// positions are those that read a side's log; none if one of them is not known.
func (t *tender) positions(side Side) (texts []string, markers []uuid.UUID) {
	for _, name := range side.readers() {
		db := t.s.a.database(name)
		if db == nil {
			return nil, nil
		}
		if db.committed.isLost(side.Direction()) {
			continue
		}
		p := db.committed.get(side.Direction())
		if p == nil {
			return nil, nil
		}
		texts, markers = append(texts, p.Snapshot), append(markers, db.committed.markers(side.Direction())...)
	}
	return texts, markers
}
