package topology

import (
	"context"
	"slices"
	"time"

	"github.com/shardctl/shardctl/migrate"
)

// Router leads clients to the home of a shard. Its methods are called one at a
// time, but for Resume, which may be called while a Pause waits.
type Router interface {
	// Name is the driver and what it drives, for messages.
	Name() string

	// Open opens every connection that the other methods need, so that none has to be
	// made while clients are held. A connection that is lost later is opened again.
	Open(ctx context.Context) error
	// Close closes them. It releases nothing: a held router stays held.
	Close()

	// Describe looks at the configuration and changes nothing. What makes the router
	// unfit is a finding; an error means that it could not look.
	Describe(ctx context.Context) (Description, error)
	// Probe proves, before clients are held, that the router can be driven to the
	// document: its place can be written, and every address answers a query through it.
	// An error refuses; findings are what could not be proven. It leaves nothing behind,
	// and cleans up after a probe that was killed.
	// Only the addresses of the shards in scope are asked: another one's server may be down.
	Probe(ctx context.Context, doc Topology, scope Scope) ([]migrate.Finding, error)

	// Pause holds the clients of the shards in scope between transactions and returns
	// when no transaction of theirs is open any more. If ctx ends first or any instance
	// fails, all that was held is released and an error is returned. One that is held
	// already is not an error.
	Pause(ctx context.Context, scope Scope) error
	// Commit writes the document and makes the router read it. A router that has a
	// later epoch refuses it with OlderEpoch; the same one again is no change.
	Commit(ctx context.Context, doc Topology) error
	// ReadBack asks the router itself where it leads; an error names what differs.
	ReadBack(ctx context.Context, doc Topology) error
	// Resume releases, whoever holds. One that is not held is not an error.
	Resume(ctx context.Context) error

	// Forget removes the epoch that the router keeps of the migration. Where it leads
	// to does not change.
	Forget(ctx context.Context) error
}

// Holder is a router that can tell which sessions of servers its clients have a transaction
// open on: a Pause waits for these.
type Holder interface {
	Busy(ctx context.Context, scope Scope) ([]Session, error)
}

// Session is one of a server's, in use by a client of a router.
type Session struct {
	Router string // the driver and the instance
	Entry  string
	Shard  int // -1: the entry stands for all
	To     string
	PID    uint32 // of the server's process
}

// Scope is the logical shards that a call concerns; nil is all.
type Scope []int

// Has reports whether a shard is in scope.
func (s Scope) Has(shard int) bool { return s == nil || slices.Contains(s, shard) }

// Description is what a router is like.
type Description struct {
	Instances []Instance        `json:"instances"`
	Findings  []migrate.Finding `json:"findings"`
}

// Instance is one process or place that a router consists of.
type Instance struct {
	Name      string        `json:"name"`
	Version   string        `json:"version,omitempty"`
	Epoch     int64         `json:"epoch"` // of the document that it holds; 0 is none
	PoolMode  string        `json:"pool_mode,omitempty"`
	QueryWait time.Duration `json:"query_wait_timeout,omitempty"` // how long a held client is kept; 0 is for ever
	Files     int           `json:"open_files,omitempty"`         // the limit; 0 is not known
	Entries   []Entry       `json:"entries,omitempty"`            // those of the spec, as the router has them now
}

// Entry is one name that clients connect to.
type Entry struct {
	Name     string  `json:"name"`
	Shard    int     `json:"shard"`
	To       string  `json:"to"` // primary or reader
	Address  Address `json:"address"`
	PoolMode string  `json:"pool_mode,omitempty"`
	Paused   bool    `json:"paused,omitempty"`
}
