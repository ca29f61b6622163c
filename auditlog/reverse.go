package auditlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// reverser brings the source level with one database: it reads the database's log
// and writes the source. Its position lies on the source, its markers on the
// database. Its fields belong to who holds mu.
type reverser struct {
	db *database

	mu      sync.Mutex
	read    *reader // of the database
	hold    link    // on the database: shares its control row while the source is written
	write   link    // on the source
	replica bool
	stages  map[string]*stage

	known     bool
	pos       store.Position
	after     snapshot
	parked    int64
	retriedAt time.Time
	touched   map[int]map[int]bool // tables and locations that are locked, by number
	textual   bool
	proof     proof // what a drain waits for
}

func newReverser(db *database, target postgres.Target) *reverser {
	side := DatabaseSide(db.a.cfg.Layout, target.Name)
	var tables []*tablePlan
	for _, t := range side.Tables() {
		tables = append(tables, db.a.plan.of(t))
	}
	v := &reverser{db: db, read: makeReader(db.a, target, side, tables)}
	v.hold = link{target: target, purpose: "catchup hold", opened: func(ctx context.Context, conn *pgx.Conn) error {
		return raiseControl(ctx, conn, db.a.migration(), db.a.cfg.Term)
	}}
	v.write = link{target: db.a.cfg.Source, purpose: "apply back"}
	v.write.opened = func(ctx context.Context, conn *pgx.Conn) (err error) {
		v.stages, v.known = map[string]*stage{}, false
		v.replica, err = becomeApplier(ctx, conn, db.a.migration())
		return err
	}
	return v
}

func (v *reverser) close(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read.close(ctx)
	v.hold.close(ctx)
	v.write.close(ctx)
	v.known = false
}

func (v *reverser) ward() ward { return ward{v.db.a.migration(), v.db.name(), store.Reverse} }

// enter reads where the source stands with this database.
func (v *reverser) enter(ctx context.Context) error {
	conn, err := v.write.get(ctx)
	if err != nil || v.known {
		return err
	}
	if v.pos, err = store.LoadPosition(ctx, conn, v.db.a.migration(), v.db.name(), store.Reverse); err != nil {
		return err
	}
	if v.after, err = parseSnapshot(v.pos.Snapshot); err != nil {
		return err
	}
	v.db.committed.set(store.Reverse, v.pos)
	v.parked, err = v.ward().count(ctx, conn)
	v.known = err == nil
	return err
}

// Reverse makes one tick back for each of the named databases, or for all, at once.
func (a *Applier) Reverse(ctx context.Context, names ...string) ([]Tick, error) {
	databases, err := a.find(names)
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(databases))
	var wait sync.WaitGroup
	for i, db := range databases {
		wait.Go(func() {
			db.rev.mu.Lock()
			defer db.rev.mu.Unlock()
			outcomes[i] = db.rev.forth(ctx)
		})
	}
	wait.Wait()
	return ticksOf(outcomes)
}

// forth makes one tick, again where the next attempt knows more, and then one for
// the keys in quarantine.
func (v *reverser) forth(ctx context.Context) outcome {
	o := v.tick(ctx, nil)
	for range secondTries {
		if o.err == nil || !v.learn(o.err) {
			break
		}
		o = v.tick(ctx, nil)
	}
	if o.err != nil || v.parked == 0 || time.Since(v.retriedAt) < v.db.a.retryPause {
		return o
	}
	v.retriedAt = time.Now()
	conn, err := v.write.get(ctx)
	var keys []parked
	if err == nil {
		keys, err = v.ward().due(ctx, conn, len(v.db.a.plan.locations(v.db.place)))
	}
	if err != nil || len(keys) == 0 {
		o.err = err
		return o
	}
	return o.sum(v.tick(ctx, keys))
}

func (v *reverser) learn(err error) bool {
	var more *untouchedError
	switch {
	case errors.As(err, &more):
		return true // it is in v.touched by now
	case errors.Is(err, errMoved):
		return true
	case own(err) && !v.textual:
		v.textual = true
		return true
	}
	return false
}

// untouchedError says that the batch names tables that the tick has not locked:
// they were written after it looked.
type untouchedError struct{}

func (*untouchedError) Error() string { return "tables were written that the tick had not locked" }

// tick makes one tick, or one for keys in quarantine.
func (v *reverser) tick(ctx context.Context, keys []parked) outcome {
	o := outcome{db: v.db, tick: Tick{Database: v.db.name(), Direction: store.Reverse}}
	if o.err = v.enter(ctx); o.err != nil {
		return o
	}
	o.tick.Parked = v.parked
	b := &batch{v: v, retried: keys, at: time.Now()}
	if keys == nil {
		quiet, err := v.quiet(ctx)
		if err != nil || quiet {
			o.err, o.tick.At, o.tick.Took = err, b.at, time.Since(b.at)
			return o
		}
	}
	o.err = b.run(ctx, &o.tick)
	if o.err != nil {
		var more *untouchedError
		if !own(o.err) && !errors.As(o.err, &more) {
			v.known = false
		}
		return o
	}
	if keys == nil {
		v.textual, v.touched = false, nil
	}
	v.parked = o.tick.Parked
	return o
}

// quiet reports whether the database's log has nothing new, and notes in which
// tables what is new is.
func (v *reverser) quiet(ctx context.Context) (bool, error) {
	conn, err := v.read.log.get(ctx)
	if err != nil {
		return false, err
	}
	look, err := v.read.survey.look(ctx, conn, v.after, 1)
	if err != nil {
		return false, err
	}
	if look.empty() {
		return true, checkLog(ctx, conn, v.db.a.migration(), v.db.name(), store.Reverse, v.pos, v.read.id)
	}
	_, err = v.touch(ctx, conn, look, window{after: v.after}.condition())
	return false, err
}

// stage gives the source session's staging table of a table. Rows carry, besides
// their locations, every parent that their entries named.
func (v *reverser) stage(ctx context.Context, t *tablePlan, textual bool) (*stage, error) {
	key := stageKey(t, textual)
	if s := v.stages[key]; s != nil {
		return s, nil
	}
	conn, err := v.write.get(ctx)
	if err != nil {
		return nil, err
	}
	lead := "0 AS shardctl_old, 0 AS shardctl_cur"
	if t.keyed && t.Derived() {
		lead += ", ARRAY[t." + postgres.Ident(t.Via.Name) + "] AS shardctl_vias"
	}
	s, err := makeStage(ctx, conn, t, t.Spec.Name, layout.Names(t.columns), lead, textual)
	if err != nil {
		return nil, err
	}
	if len(v.db.a.plan.locations(v.db.place)) > 1 && t.keyed {
		// A key that left one location may be looked for at another.
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE INDEX ON %s (%s)", s.name, s.keyNames())); err != nil {
			return nil, fmt.Errorf("index the staging table of %s: %w", t.Name(), err)
		}
	}
	v.stages[key] = s
	return s, nil
}
