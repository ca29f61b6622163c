package auditlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// applierSettings make every statement of an applier go from the staged rows to
// the written table by its key: staged rows have no statistics, and a plan that
// reads a large table as a whole would be the end of a tick.
const applierSettings = `SET enable_hashjoin = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '16MB'`

// database is one database of the spec, as ticks forward write it. Its fields
// below mu belong to who holds it.
type database struct {
	a     *Applier
	place int // in the spec, from 0
	rev   *reverser

	committed durable // what rotation goes by

	mu      sync.Mutex
	write   link
	replica bool // the session has replica role
	stages  map[string]*stage

	standing
	retriedAt time.Time        // when they were tried last
	extra     map[int][]string // keys beyond a cut that stand in the way, for the next batch
	proof     proof            // what a drain waits for
	textual   bool             // stage as text next time: a value could not be staged
}

// standing is where a database stands: read when its session begins, then moved by
// its ticks.
type standing struct {
	known  bool // it was read
	moved  bool // the shards are the database's own
	held   bool
	pos    store.Position
	after  snapshot // of pos
	whole  bool     // the batch that ended there was not cut, as far as is known
	parked int64    // keys in quarantine
}

func newDatabase(a *Applier, place int, target postgres.Target) *database {
	db := &database{a: a, place: place, write: link{target: target, purpose: "apply"}}
	db.write.opened = func(ctx context.Context, conn *pgx.Conn) (err error) {
		db.stages, db.known = map[string]*stage{}, false
		if db.replica, err = becomeApplier(ctx, conn, a.migration()); err != nil {
			return err
		}
		return raiseControl(ctx, conn, a.migration(), a.cfg.Term)
	}
	db.rev = newReverser(db, target)
	return db
}

func (db *database) name() string { return db.write.target.Name }

func (db *database) close(ctx context.Context) {
	db.mu.Lock()
	db.write.close(ctx)
	db.known = false
	db.mu.Unlock()
	db.rev.close(ctx)
}

func becomeApplier(ctx context.Context, conn *pgx.Conn, migration string) (replica bool, err error) {
	replica, err = postgres.BecomeApplier(ctx, conn, migration)
	if err != nil {
		return false, err
	}
	if _, err := conn.Exec(ctx, applierSettings); err != nil {
		return false, fmt.Errorf("set up the applier's session: %w", err)
	}
	return replica, nil
}

// raiseControl brings a database that was down when the term was raised up to it.
func raiseControl(ctx context.Context, conn *pgx.Conn, migration string, term int64) error {
	c, err := store.LoadControl(ctx, conn, migration)
	if err != nil || c.Term == term {
		return err
	}
	return store.RaiseControlTerm(ctx, conn, migration, term)
}

// enter reads where the database stands, unless that is known from its last tick.
func (db *database) enter(ctx context.Context) error {
	conn, err := db.write.get(ctx)
	if err != nil {
		return err
	}
	if db.known && !db.held {
		return nil
	}
	c, err := store.LoadControl(ctx, conn, db.a.migration())
	if err != nil {
		return fmt.Errorf("database %s: %w", db.name(), err)
	}
	db.moved, db.held = c.Owner != store.OwnerSource, c.Held
	if err := db.agrees(ctx, c); err != nil {
		return err
	}
	if db.pos, err = store.LoadPosition(ctx, conn, db.a.migration(), db.name(), store.Forward); err != nil {
		return err
	}
	if db.after, err = parseSnapshot(db.pos.Snapshot); err != nil {
		return err
	}
	db.whole = false
	db.committed.set(store.Forward, db.pos)
	db.parked, err = db.ward().count(ctx, conn)
	db.known = err == nil
	return err
}

// agrees refuses to go on by a word on who owns the shards that is not the last one. A
// source that went back in time knows only an earlier epoch than the database. Where a
// rollback has given the shards back and this database does not know of it yet, what is
// written to the source now is for it, and would be passed over as stray.
func (db *database) agrees(ctx context.Context, c store.Control) error {
	if !db.moved && c.Epoch <= 1 {
		return nil // nothing was ever switched
	}
	source, err := postgres.Connect(ctx, db.a.cfg.Source, "catchup")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, source)
	owners, err := store.LoadOwnership(ctx, source, db.a.migration())
	if err != nil {
		return err
	}
	for _, o := range owners {
		switch {
		case o.Database != db.name():
		case o.Epoch < c.Epoch:
			return store.SourceBehind(c.Epoch, o.Epoch)
		case db.moved && o.Owner == store.OwnerSource:
			return fmt.Errorf("tick on %s: %w", db.name(), errUnfinished)
		}
	}
	return nil
}

// stage gives the session's staging table for a table, made when first needed.
func (db *database) stage(ctx context.Context, t *tablePlan, textual bool) (*stage, error) {
	key := stageKey(t, textual)
	if s := db.stages[key]; s != nil {
		return s, nil
	}
	conn, err := db.write.get(ctx)
	if err != nil {
		return nil, err
	}
	schema := db.a.plan.schemaOf(t, db.place)
	names := layout.Names(t.columns)
	if t.StoreAs != "" {
		names = append(names, t.StoreAs)
	}
	written := migrate.TableName{Schema: schema, Name: t.TargetName()}
	s, err := makeStage(ctx, conn, t, written, names, "0 AS shardctl_old, 0 AS shardctl_cur", textual)
	if err != nil {
		return nil, err
	}
	if len(db.a.plan.locations(db.place)) >= indexedFrom && t.keyed {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE INDEX ON %[1]s (shardctl_cur); CREATE INDEX ON %[1]s (shardctl_old)", s.name)); err != nil {
			return nil, fmt.Errorf("index the staging table of %s: %w", t.Name(), err)
		}
	}
	db.stages[key] = s
	return s, nil
}

func stageKey(t *tablePlan, textual bool) string { return fmt.Sprint(t.No, textual) }

// schemaOf is the schema of one of a table's places on a database.
func (p *plan) schemaOf(t *tablePlan, database int) string {
	return p.layout.Locations(t.Table, p.layout.Spec.Databases[database].Name)[0].Schema
}

func (db *database) ward() ward { return ward{db.a.migration(), db.name(), store.Forward} }
