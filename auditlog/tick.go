package auditlog

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Tick is what one tick did for one database.
type Tick struct {
	Database  string
	Direction store.Direction
	Number    int64         // of its marker; 0 if nothing was stored
	Entries   int64         // log entries that the position moved past
	Rows      int64         // rows written
	Deletes   int64         // deletes issued, hit or not
	Strays    int64         // keys of writes on the source to shards that had moved
	Parked    int64         // keys in quarantine after the tick
	Backlog   int64         // entries known to be left; a lower bound
	Cut       bool          // the batch was cut: more is waiting
	Held      bool          // nothing was done: a fast copy holds this database
	At        time.Time     // when the snapshot was taken, by the log's clock
	Took      time.Duration // from the snapshot to the commit
}

// Caught reports whether the database is level with the tick's snapshot.
func (t Tick) Caught() bool { return !t.Cut && !t.Held }

// ErrHeld says that a database takes no ticks until its fast copy has ended.
var ErrHeld = errors.New("held by a fast copy")

// errMoved says that the owner of a database's shards changed while a tick was
// under way: nothing was done, the next tick goes by the new owner.
var errMoved = errors.New("the owner of the shards changed during the tick")

// errUnfinished says that source and database disagree on who owns the shards.
var errUnfinished = errors.New("the rollback was not carried out here: run shardctl rollback again")

const gapCode = "gap"

// gapFailure is the clear stop where entries are lost to a database: it is never
// bridged, the database is copied anew.
func gapFailure(database string, d store.Direction, reason string) error {
	hint := "its copy must start over: run shardctl prepare --database " + database
	if d == store.Reverse {
		hint = "what it wrote since cannot be brought back by the log; the shards stay where they are"
	}
	return migrate.Refuse(gapCode, database, "the "+string(d)+" log no longer holds what this database has not seen: "+reason, hint)
}
