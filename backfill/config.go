package backfill

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Config says what to copy, and how.
type Config struct {
	Source    postgres.Target
	Read      *postgres.Target  // a replica of the source to read from; defaults to the source
	Databases []postgres.Target // all of the migration
	Layout    *layout.Layout
	Only      []string    // the databases to copy to; defaults to all
	Workers   int         // defaults to the machine's processors, from 2 to 8
	Mode      Mode        // asked for; "" is the choice of ChooseMode
	Finisher  Finisher    // what follows the copy; nil: nothing
	Events    func(Event) // called from several goroutines, one at a time; nil: none

	// MaxOutage is how long a server may be out of reach before the run gives
	// up. Defaults to 10 minutes.
	MaxOutage time.Duration

	Signals Signals // for tests; none in production
}

// The bounds of a chunk and what it holds in memory.
const (
	chunkTime  = 200 * time.Millisecond // a chunk's snapshot is not open for longer, as a rule
	chunkBytes = 16 << 20               // the most a chunk should carry
	partBytes  = 4 << 20                // what one worker buffers before it writes
)

// The bounds of waiting.
const (
	heartbeatEvery = 2 * time.Second
	heartbeatStale = 15 * time.Second // as for leases
	measureEvery   = time.Second
	measureStale   = 5 * time.Second // older measurements count as none
	lockWait       = 500 * time.Millisecond
	chunkTries     = 10 // re-reads and conflicts before a chunk goes back to the queue
	concludeTries  = 3  // ends at which a database has lost something before a person is asked

	conflictWait = 100 * time.Millisecond // longer each time: 4.5 s in all, many ticks
)

func (c *Config) complete() error {
	if c.Workers == 0 {
		c.Workers = DefaultWorkers()
	}
	if c.Workers < 0 {
		return migrate.Usage("backfill.workers", fmt.Sprint(c.Workers), "the number of workers is negative", "give at least 1")
	}
	if c.MaxOutage == 0 {
		c.MaxOutage = 10 * time.Minute
	}
	if c.Mode != "" && c.Mode != Live && c.Mode != Fast {
		return migrate.Usage("backfill.mode", string(c.Mode), "no such mode", "use live or fast")
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(c.Databases, func(t postgres.Target) bool { return t.Name == name }) {
			return migrate.Usage("backfill.database", name, "the spec has no database of that name", "name one of the spec's databases")
		}
	}
	if len(c.Only) == 0 {
		for _, d := range c.Databases {
			c.Only = append(c.Only, d.Name)
		}
	}
	return nil
}

func (c *Config) migration() string { return c.Layout.Spec.Migration }

// DefaultWorkers is sized from the machine: splitting rows costs one processor
// for about two workers, and fewer than two leave a server idle while the other
// side works.
func DefaultWorkers() int { return min(max(runtime.NumCPU(), 2), 8) }

// Connections are the most that a run opens on the source, on a replica that it
// reads, and on each database.
func Connections(workers int, replica bool) (source, read, database int) {
	if replica {
		return 2, workers, workers + 1
	}
	return workers + 2, 0, workers + 1
}
