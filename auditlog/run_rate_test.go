package auditlog

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/store"
)

func TestRatesCountTimeAtWork(t *testing.T) {
	t.Parallel()
	r := newRates()
	if got := r.perSecond(); got != 0 {
		t.Errorf("nothing measured gives %f", got)
	}
	r.note(Tick{Database: "a", Direction: store.Forward, Rows: 60, Deletes: 40, Took: 100 * time.Millisecond})
	r.note(Tick{Database: "a", Direction: store.Forward, Took: time.Second}) // idle
	r.note(Tick{Database: "b", Direction: store.Forward, Rows: 500, Took: time.Second})
	if got := r.perSecond(); got < 1499 || got > 1501 {
		t.Errorf("1000/s and 500/s give %f", got)
	}
	for range 20 {
		r.note(Tick{Database: "a", Direction: store.Forward, Rows: 100, Took: time.Second})
	}
	if got := r.perSecond(); got < 600 || got > 605 {
		t.Errorf("after 20 s at 100/s and 500/s it is %f", got)
	}
}
