package auditlog

import (
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffLast  = 5 * time.Second
)

// backoff is the growing pause between tries of something that is down.
type backoff struct {
	pause time.Duration
	tries int
}

func newBackoff() *backoff { return &backoff{pause: backoffFirst} }

// next gives the pause before the next try, jittered so that many do not come at
// the same moment.
func (b *backoff) next() time.Duration {
	pause := b.pause/2 + rand.N(b.pause/2)
	b.pause = min(2*b.pause, backoffLast)
	b.tries++
	return pause
}
