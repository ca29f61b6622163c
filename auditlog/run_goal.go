package auditlog

import (
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/store"
)

// goal is what Run is to reach, and how far each database is.
type goal struct {
	options RunOptions
	begun   time.Time

	mu     sync.Mutex
	caught map[goalKey]time.Time // to which moment a database is level; zero: not yet
}

type goalKey struct {
	database  string
	direction store.Direction
}

func newGoal(a *Applier, o RunOptions, begun time.Time) *goal {
	g := &goal{options: o, begun: begun, caught: map[goalKey]time.Time{}}
	for _, db := range a.databases {
		g.caught[goalKey{db.name(), store.Forward}] = time.Time{}
		if !a.cfg.ForwardOnly {
			g.caught[goalKey{db.name(), store.Reverse}] = time.Time{} // until it is known who owns the shards
		}
	}
	return g
}

// expect adds or drops the way back of a database.
func (g *goal) expect(database string, reverse bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := goalKey{database, store.Reverse}
	if !reverse {
		delete(g.caught, key)
	} else if _, there := g.caught[key]; !there {
		g.caught[key] = time.Time{}
	}
}

// note takes a tick; it reports whether everything is reached.
func (g *goal) note(t Tick) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.Caught() {
		g.caught[goalKey{t.Database, t.Direction}] = t.At
	}
	if !g.options.Once && g.options.UntilLag == 0 {
		return false
	}
	oldest := g.begun
	if !g.options.Once {
		oldest = time.Now().Add(-g.options.UntilLag)
	}
	for _, at := range g.caught {
		if at.Before(oldest) {
			return false
		}
	}
	return true
}
