package cutover

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
)

// Applier brings one side to the other's state. The drains end with a tick that
// is proven, by a probe written before it, to have seen everything committed before
// the call.
type Applier interface {
	// DrainForward brings the databases level with the source.
	DrainForward(ctx context.Context, databases []string) error
	// DrainReverse brings the source level with the databases.
	DrainReverse(ctx context.Context, databases []string) error
	// RereadStrays hands the writes that the source took for shards of a database that owned
	// them to that database's log: the owner's rows win on the way back.
	RereadStrays(ctx context.Context, databases []string) error
	// ProveReverse writes a probe into each database's reverse log and reads it back.
	ProveReverse(ctx context.Context, databases []string) error
	// Blocked names what cannot be applied in that direction: quarantine, parked rows, a gap.
	Blocked(ctx context.Context, databases []string, reverse bool) error
}

// Verifier judges whether the sides are equal.
type Verifier interface {
	// Gate is nil when a fresh clean full pass stands for each database.
	Gate(ctx context.Context, databases []string, maxAge time.Duration) error
	// Delta compares the keys touched since the last clean round, between ticks.
	Delta(ctx context.Context, databases []string) error
	// Room reports whether little enough is left for Exact to be asked while clients wait.
	Room(ctx context.Context, databases []string) (bool, error)
	// Exact compares all that is left while nothing moves; an error names a difference.
	Exact(ctx context.Context, databases []string) error
}

// Copy says whether the copy of a database is whole, by its own ledger.
type Copy interface {
	Whole(ctx context.Context, database string) error
}

// Config is what a switch needs. All fields are required unless stated.
type Config struct {
	Layout    *layout.Layout
	Source    postgres.Target
	Databases []postgres.Target                                      // all, in the spec's order
	Only      []string                                               // the databases to switch; empty: all
	MaxPause  time.Duration                                          // from the first PAUSE to the end of RESUME; an attempt that cannot keep it aborts
	Applier   func(ctx context.Context, term int64) (Applier, error) // under the term of the applier's lease
	Verifier  Verifier
	Copy      Copy // forward only
	Routers   []topology.Router
	Observe   func(Step)                                           // each step as it ends; nil is none
	Watchdog  func(ctx context.Context, w Watch) (Watchdog, error) // starts the guard of the window; nil is none
}

// Watch is what a watchdog must know, besides the spec.
type Watch struct {
	Direction Direction
	Databases []string      // that the window moves
	Deadline  time.Duration // from Arm
}

// Backends are the sessions by which a command could still change something.
type Backends struct {
	Attempt uuid.UUID                   `json:"attempt"` // whose they are
	Source  []postgres.Backend          `json:"source"`
	Doors   map[string]postgres.Backend `json:"doors"` // by database
}

// Watchdog guards one window.
type Watchdog interface {
	// Arm starts the deadline; it returns when the watchdog has confirmed.
	Arm(ctx context.Context, backends Backends) error
	// Disarm ends it: the window is over.
	Disarm(ctx context.Context) error
}

// databaseNames lists those that a switch moves, in the spec's order.
func (c Config) databaseNames() []string {
	out := make([]string, len(c.Databases))
	for i, d := range c.Databases {
		out[i] = d.Name
	}
	return out
}

func (c Config) migration() string { return c.Layout.Spec.Migration }
