package auditlog

import (
	"context"

	"github.com/shardctl/shardctl/internal/store"
)

// ProgressKind says what a Progress tells.
type ProgressKind string

// The kinds.
const (
	Ticked      ProgressKind = "ticked"      // a tick was committed, or found nothing to do
	Waiting     ProgressKind = "waiting"     // a transient error; the database is tried again
	Recovered   ProgressKind = "recovered"   // the database that was waiting is back
	Holding     ProgressKind = "holding"     // a fast copy holds the database's ticks
	Quarantined ProgressKind = "quarantined" // keys could not be applied for their own reasons
	HandingOver ProgressKind = "handing over"
	TakenOver   ProgressKind = "taken over" // the lease is ours, under a new term
	Tended      ProgressKind = "tended"     // rotation, pruning or a delta check failed for now
)

// Progress is one thing that the applier tells. Who observes prints.
type Progress struct {
	Kind      ProgressKind
	Database  string // "" for the whole
	Direction store.Direction
	Tick      Tick
	Err       error // the last one
	First     error // of a row of transient errors, the first one
	Tries     int
	Term      int64
}

// Observer takes what the applier tells. It is called from several goroutines
// and must not block.
type Observer func(Progress)

// DeltaChecker compares the keys touched since the last clean round. It is
// called between ticks.
type DeltaChecker interface {
	DeltaCheck(ctx context.Context, database string) error
}
