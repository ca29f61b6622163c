package verify

import (
	"math"

	"github.com/shardctl/shardctl/migrate"
)

// Mode is how much a pass looks at.
type Mode string

// The modes. A delta compares what was written since; it is no pass of its own.
const (
	Full   Mode = "full"
	Sample Mode = "sample"
	delta  Mode = "delta"
)

// Status is where verification stands.
type Status string

// The states. Only clean opens the gate of a cutover.
const (
	None        Status = "none"        // there was no pass
	Running     Status = "running"     // one is under way
	Partial     Status = "partial"     // it was cut short, looked at a sample, or left too much undecided
	Clean       Status = "clean"       // no difference
	Stale       Status = "stale"       // it was clean, but no longer speaks of what is there
	Differences Status = "differences" // there are some, repaired or not, until a later clean pass
)

// Kind is what is wrong with a row.
type Kind string

// The kinds.
const (
	Missing       Kind = "missing"
	Extra         Kind = "extra"
	Different     Kind = "different"
	WrongLocation Kind = "wrong_location"
	Duplicate     Kind = "duplicate"
)

// Difference is one confirmed damage.
type Difference struct {
	Kind      Kind              `json:"kind"`
	Table     migrate.TableName `json:"table"` // on the source
	Key       []string          `json:"key"`
	Database  string            `json:"database"`
	Schema    string            `json:"schema"`    // where the row is, or should be
	Columns   []string          `json:"columns"`   // of different; else empty
	Direction string            `json:"direction"` // forward: the database is wrong; reverse: the source is
}

// Detects is what a pass without differences has shown: with that confidence, fewer
// rows than this rate are damaged.
type Detects struct {
	Rate       float64 `json:"rate"`
	Confidence float64 `json:"confidence"`
}

// detectable is the rate of damage that n independent draws without a hit exclude
// at 95 % (about 3/n). Sampling never proves zero.
func detectable(n int64) Detects {
	if n <= 0 {
		return Detects{Rate: 1, Confidence: 0.95}
	}
	return Detects{Rate: 1 - math.Pow(0.05, 1/float64(n)), Confidence: 0.95}
}

// Result is what a pass has found.
type Result struct {
	State        Status       `json:"state"`
	Mode         Mode         `json:"mode"`
	Coverage     float64      `json:"coverage"` // share of the rows that were compared
	RowsCompared int64        `json:"rows_compared"`
	Detects      Detects      `json:"detects"`
	Differences  []Difference `json:"differences"`
	Truncated    bool         `json:"truncated"` // there are more than are listed
	Unsettled    int64        `json:"unsettled"` // keys that went on changing
	Reason       string       `json:"reason,omitempty"`
}
