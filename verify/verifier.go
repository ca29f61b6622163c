package verify

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Config is what a Verifier works on.
type Config struct {
	Layout    *layout.Layout
	Source    postgres.Target
	Read      postgres.Target   // a replica of the source for the bulk of the reading; without a DSN the source itself
	Databases []postgres.Target // in the order of the spec, all of them
	// Pause is asked before each chunk of the source is read and returns when that is
	// welcome, beside the spec's max_rate. Nil: always.
	Pause func(context.Context) error
	// Observe is told how a pass goes on, one call at a time. Nil: nobody is.
	Observe func(Event)
}

// limits bound time and memory. They are fields so that tests reach the edges
// with little data.
type limits struct {
	chunk       time.Duration // how long a chunk's snapshot should live
	rows        int64         // elements of a chunk that are held until it is read whole
	cells       int64         // of a sketch
	streams     int           // databases that are read at once
	keys        int           // keys looked up in one statement
	rounds      int           // how often a key that may differ is looked at again
	backoff     time.Duration // before the second look; doubled for each further one
	differences int           // listed ones; more are only counted as truncated
	unsettled   int           // keys that may stay undecided in a clean pass
	slices      uint64        // how often a table may be read for differences that one reading cannot tell apart
	beat        time.Duration // between two signs of life of a round
}

var defaults = limits{
	chunk:       300 * time.Millisecond,
	rows:        1 << 16, // 1 MB
	cells:       maxCells,
	streams:     4,
	keys:        500,
	rounds:      7, // 6.3 s in all
	backoff:     100 * time.Millisecond,
	differences: 1000,
	unsettled:   5000,
	slices:      32,
	beat:        3 * time.Second,
}

// Verifier compares the source with its databases. Its methods may be called from
// several goroutines, but only one pass at a time is meant to run for a migration.
type Verifier struct {
	cfg       Config
	limits    limits
	source    *server
	read      *server // the source, or its replica
	databases []*server
	observing sync.Mutex
	hasState  atomic.Bool // its tables are known to be there
}

// server is one side: the source, a replica of it, or a database.
type server struct {
	postgres.Target
	number int // of a database: its place in the spec, from 0

	mu       sync.Mutex
	pool     *pgxpool.Pool // opened by the first use, which also fills what follows
	version  int           // server_version_num
	encoding string
}

// sessions bounds what one server is asked at once: a stream, a look-up, and the
// state that is written meanwhile.
const sessions = 4

// New makes a Verifier. It connects when there is something to read; Close ends that.
func New(cfg Config) *Verifier {
	v := &Verifier{cfg: cfg, limits: defaults}
	v.source = &server{Target: cfg.Source}
	v.read = v.source
	if cfg.Read.DSN != "" {
		v.read = &server{Target: cfg.Read}
	}
	for i, d := range cfg.Databases {
		v.databases = append(v.databases, &server{Target: d, number: i})
	}
	return v
}

// Close ends all sessions.
func (v *Verifier) Close() {
	for _, s := range v.servers() {
		s.mu.Lock()
		if s.pool != nil {
			s.pool.Close()
			s.pool = nil
		}
		s.mu.Unlock()
	}
}

func (v *Verifier) servers() []*server {
	all := append([]*server{v.source}, v.databases...)
	if v.read != v.source {
		all = append(all, v.read)
	}
	return all
}

func (v *Verifier) migration() string { return v.cfg.Layout.Spec.Migration }

// open gives a server's sessions.
func (s *server) open(ctx context.Context) (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool == nil {
		pool, err := postgres.Pool(ctx, s.Target, "verify", sessions)
		if err != nil {
			return nil, err
		}
		const facts = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`
		if err := pool.QueryRow(ctx, facts).Scan(&s.version, &s.encoding); err != nil {
			pool.Close()
			return nil, fmt.Errorf("ask %s for its version: %w", s.Name, err)
		}
		s.pool = pool
	}
	return s.pool, nil
}

// with runs fn on a session of the server.
func (s *server) with(ctx context.Context, fn func(*pgxpool.Conn) error) error {
	pool, err := s.open(ctx)
	if err != nil {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Name, err)
	}
	defer conn.Release()
	return fn(conn)
}

// places lists the locations of a table on a database, numbered over all databases.
func (v *Verifier) places(t *layout.Table, database *server) []place {
	var out []place
	ord := 0
	for _, d := range v.databases {
		shards := v.cfg.Layout.Spec.Shards.ShardsOf(d.Name)
		for i, loc := range v.cfg.Layout.Locations(t, d.Name) {
			ord++
			if d != database {
				continue
			}
			p := place{Location: loc, ord: ord, table: v.cfg.Layout.QualifiedTarget(t, loc)}
			switch {
			case t.Everywhere():
			case v.cfg.Layout.Spec.Shards.SchemaPerShard():
				p.shards = shards[i : i+1]
			default:
				p.shards = shards
			}
			out = append(out, p)
		}
	}
	return out
}

// builder makes the SQL by which the given servers can be compared: what all of
// them have in common decides how they digest rows.
func (v *Verifier) builder(ctx context.Context, servers []*server) (builder, error) {
	b := builder{layout: v.cfg.Layout, digests: digester{records: true}}
	for _, s := range servers {
		if _, err := s.open(ctx); err != nil {
			return b, err
		}
		b.digests.records = b.digests.records && s.version >= 140000
		b.digests.convert = b.digests.convert || s.encoding != servers[0].encoding
	}
	return b, nil
}

// database finds one by name.
func (v *Verifier) database(name string) (*server, error) {
	for _, d := range v.databases {
		if d.Name == name {
			return d, nil
		}
	}
	return nil, migrate.Usage("database.unknown", name, "there is no such database in the spec", "name one of its databases")
}
