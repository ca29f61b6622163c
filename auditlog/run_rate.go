package auditlog

import (
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/store"
)

// rateHalf is after how much time at work older ticks count for half.
const rateHalf = 5 * time.Second

// rates measures how fast ticks bring rows into each database. Only the time at work
// counts, so that an applier that is level still says what it can do.
type rates struct {
	mu sync.Mutex
	by map[rateKey]*rate
}

type rateKey struct {
	database  string
	direction store.Direction
}

type rate struct {
	rows float64
	took time.Duration
}

func newRates() *rates { return &rates{by: map[rateKey]*rate{}} }

// note takes a tick into account; one that wrote nothing tells nothing.
func (r *rates) note(t Tick) {
	rows := t.Rows + t.Deletes
	if rows == 0 || t.Took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := rateKey{t.Database, t.Direction}
	one := r.by[key]
	if one == nil {
		one = &rate{}
		r.by[key] = one
	}
	one.rows, one.took = one.rows+float64(rows), one.took+t.Took
	for one.took > 2*rateHalf {
		one.rows, one.took = one.rows/2, one.took/2
	}
}

// perSecond is what all databases take together, in rows; 0: nothing was measured.
func (r *rates) perSecond() (sum float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.by {
		sum += one.rows / one.took.Seconds()
	}
	return sum
}
