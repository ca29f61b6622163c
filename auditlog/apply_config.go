package auditlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

const (
	// defaultBatch bounds how many entries of one log segment a batch takes: about a
	// second of work, so that no snapshot of the source lives long.
	defaultBatch = 20_000
	// defaultPatience is how long a tick that others share waits for a database that
	// does not take its rows.
	defaultPatience = 2 * time.Second
)

// Config is what an applier needs.
type Config struct {
	Layout    *layout.Layout
	Source    postgres.Target
	Databases []postgres.Target // those it may bring forward or back
	Term      int64             // of the applier's lease; Run draws its own
	Observe   Observer          // nil is none
	Delta     DeltaChecker      // called by Run between ticks; nil is none
	// Retain lists snapshots up to which others have read a side's log, next to the
	// positions: rotation keeps what lies beyond them. Nil is none.
	Retain func(ctx context.Context, side Side) ([]string, error)
	Batch  int // entries of one log segment in a batch. Defaults to 20 000
	// ForwardOnly is for after complete: only everywhere tables are applied, since the
	// logs of the way back are gone.
	ForwardOnly bool
	Patience    time.Duration // how long a shared tick waits for one database. Defaults to 2 s
}

// Applier brings databases level with the source, and the source level with the
// databases, by re-reading the keys that the logs name.
type Applier struct {
	cfg       Config
	plan      *plan
	databases []*database // in the order of the spec

	retryPause time.Duration // between two tries of keys in quarantine; Run spaces them

	mu      sync.Mutex
	readers []*reader // idle ones, on the source
}

// New makes an applier. It connects when it ticks.
func New(cfg Config) (*Applier, error) {
	if cfg.Batch == 0 {
		cfg.Batch = defaultBatch
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Progress) {}
	}
	a := &Applier{cfg: cfg, plan: newPlan(cfg.Layout)}
	for i, d := range cfg.Layout.Spec.Databases {
		for _, target := range cfg.Databases {
			if target.Name == d.Name {
				a.databases = append(a.databases, newDatabase(a, i, target))
			}
		}
	}
	if len(a.databases) != len(cfg.Databases) {
		return nil, migrate.Usage("database.unknown", "databases", "a database that the spec does not have", "name databases of the spec")
	}
	return a, nil
}

// Close ends all sessions. The applier can be used again.
func (a *Applier) Close(ctx context.Context) {
	a.mu.Lock()
	readers := a.readers
	a.readers = nil
	a.mu.Unlock()
	for _, r := range readers {
		r.close(ctx)
	}
	for _, db := range a.databases {
		db.close(ctx)
	}
}

func (a *Applier) migration() string { return a.cfg.Layout.Spec.Migration }

// find gives the databases of these names; without names, all.
func (a *Applier) find(names []string) ([]*database, error) {
	if len(names) == 0 {
		return a.databases, nil
	}
	out := make([]*database, 0, len(names))
	for _, name := range names {
		db := a.database(name)
		if db == nil {
			return nil, fmt.Errorf("database %s: not one of this applier's", name)
		}
		out = append(out, db)
	}
	return out, nil
}

func (a *Applier) database(name string) *database {
	for _, db := range a.databases {
		if db.name() == name {
			return db
		}
	}
	return nil
}

// borrow gives a reader of the source that nobody else uses; giveBack returns it.
func (a *Applier) borrow() *reader {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.readers); n > 0 {
		r := a.readers[n-1]
		a.readers = a.readers[:n-1]
		return r
	}
	return newReader(a)
}

func (a *Applier) giveBack(r *reader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readers = append(a.readers, r)
}
