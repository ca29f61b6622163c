package migrate

import "time"

// Spec is a decoded and checked specification of one migration. Decode makes
// it; it never holds an unexpanded variable. Its DSNs are secrets: they are
// never stored, logged or printed.
type Spec struct {
	Version   int
	Migration string // names the state; [a-z0-9_]{1,32}
	Source    Source
	Databases []Database // in the order of the file
	Shards    Shards
	Tables    []Table // in the order of the file
	Capture   Capture
	Throttle  Throttle
	Sequences string // "stride" (default) or "keep"
	Cutover   CutoverSettings
	Complete  CompleteSettings
	Topology  []Router
}

// Source is the monolith.
type Source struct {
	DSN     Secret
	ReadDSN Secret // optional: a replica that backfill and verify read
}

// Database is one physical target.
type Database struct {
	Name   string // not "source"
	DSN    Secret
	Router Address // what pooler entries say; zero fields fall back to the DSN's
	Reader Address // where read-only entries point; zero fields fall back to Router
}

// Address is how a client reaches a database.
type Address struct {
	Host   string
	Port   uint16
	DBName string
}

// Shards says how rows map to logical shards and shards to databases.
type Shards struct {
	Count     int
	Schema    string   // with a printf verb (%d, %03d) a schema per shard, else one schema per database
	Hash      string   // "postgres"
	Placement []string // shard number -> database name; len == Count
}

// Table is one migrated table.
type Table struct {
	Name       TableName // on the source
	As         string    // the table's name on the databases; defaults to Name.Name
	Key        Key       // zero with count 1 or Everywhere
	Version    string    // optional: a column that grows with each update
	Rollback   string    // "full" (default) or "none"
	Orphans    Stray     // default refuse
	NullKeys   Stray     // default refuse
	Everywhere bool      // reference table: a full copy in each database
}

// TableName is a schema-qualified name, unquoted.
type TableName struct{ Schema, Name string }

// Key says how a row of a table finds its shard.
type Key struct {
	Column  string    // own key; empty for a derived one
	From    TableName // derived: the parent table, itself in Tables
	Via     string    // derived: the column that refers to the parent's primary key
	StoreAs string    // derived, optional: the column on the databases that holds the key
}

// Stray says what becomes of rows without a usable key.
type Stray struct {
	Policy string // "refuse", "skip" or "shard"
	Shard  int    // with "shard"
}

// Capture is how writes on the source are recorded.
type Capture struct {
	Engine       string // "trigger" (default) or "wal"
	LogSoftLimit int64  // bytes; defaults to 10 GB: the backfill pauses
	LogHardLimit int64  // bytes; defaults to 50 GB: capture stops with a gap
}

// Throttle bounds what a backfill may do to the source. Zero is no limit.
type Throttle struct {
	MaxReplicaLag   time.Duration // defaults to 1 s
	MaxCatchupLag   time.Duration // defaults to 30 s
	MaxSourceActive int           // active backends that are not ours
	MaxRate         int           // rows per second
	Schedule        string        // "22:00-06:00", local time of the source; empty is always
}

// CutoverSettings bounds a switch of traffic.
type CutoverSettings struct {
	MaxPause       time.Duration // defaults to 2 s
	VerifyMaxAge   time.Duration // defaults to 24 h
	RollbackWindow time.Duration // defaults to 4 h
}

// CompleteSettings says what holds after the end.
type CompleteSettings struct {
	EverywhereOwner string // "source" (default) or "none"
}

// Router is one entry of topology.
type Router struct {
	Driver    string // "pgbouncer", "file", "postgres" or "exec"
	Instances []RouterInstance
	Entries   []RouterEntry
	Path      string        // file: where the document is written
	DSN       Secret        // postgres: the database of the table
	Table     TableName     // postgres: where the document's row is
	Channel   string        // postgres: what is notified
	Command   []string      // exec: the hook and its first arguments
	Timeout   time.Duration // exec: of each call
}

// RouterInstance is one pooler process.
type RouterInstance struct {
	AdminDSN      Secret
	DatabasesFile string
	FileVia       []string // exec: how to reach the file of a pooler on another host
}

// RouterEntry is a pattern of pooler entries.
type RouterEntry struct {
	Database string // with a verb one entry a shard
	To       string // "primary" (default) or "reader"
}
