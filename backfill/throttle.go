package backfill

import (
	"context"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// throttle holds workers back between chunks. It fails closed: what cannot be
// measured counts as over its limit.
type throttle struct {
	measure func(context.Context) (hindrance, error)
	events  *events
	rate    int // rows per second of this process; 0: no limit

	mu      sync.Mutex
	state   hindrance
	at      time.Time // of the last measurement that succeeded
	shown   string    // the kind of hindrance that an event was emitted for
	debt    float64   // rows that were copied beyond the rate
	settled time.Time // when the debt was last brought up to date
	peers   int       // processes that share the rate
}

// hindrance is why no chunk may start now.
type hindrance struct {
	kind    string // stable; "" is none
	message string // with what was measured, and the limit
	peers   int    // processes that copy at the same time
}

// poll measures until ctx ends.
func (t *throttle) poll(ctx context.Context) {
	for {
		t.look(ctx)
		if sleep.For(ctx, measureEvery) != nil {
			return
		}
	}
}

// look measures once.
func (t *throttle) look(ctx context.Context) {
	h, err := t.measure(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		h = hindrance{kind: "unmeasured", message: "the load cannot be measured: " + err.Error()}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.at, t.peers = h, time.Now(), max(h.peers, 1)
}

// wait returns when a chunk may start.
func (t *throttle) wait(ctx context.Context) error {
	for {
		h, pause := t.now()
		t.show(h)
		if h.kind == "" && pause <= 0 {
			return ctx.Err()
		}
		if h.kind != "" {
			pause = measureEvery / 4
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

func (t *throttle) now() (hindrance, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > measureStale {
		return hindrance{kind: "unmeasured", message: "the load has not been measured for " + time.Since(t.at).Round(time.Second).String()}, 0
	}
	if t.state.kind != "" || t.rate <= 0 {
		return t.state, 0
	}
	return t.state, t.settle()
}

// settle pays the debt off by the time that has passed, and gives how long the
// rest will take.
func (t *throttle) settle() time.Duration {
	now := time.Now()
	share := float64(t.rate) / float64(max(t.peers, 1))
	t.debt = max(t.debt-now.Sub(t.settled).Seconds()*share, 0)
	t.settled = now
	return time.Duration(t.debt / share * float64(time.Second))
}

// spend counts rows against the rate.
func (t *throttle) spend(rows int64) {
	if t.rate <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	t.debt += float64(rows)
}

// show tells the observer when the kind of hindrance changes.
func (t *throttle) show(h hindrance) {
	t.mu.Lock()
	changed := h.kind != t.shown
	t.shown = h.kind
	t.mu.Unlock()
	switch {
	case changed && h.kind == "":
		t.events.emit(Event{Kind: EventGoing})
	case changed:
		t.events.emit(Event{Kind: EventThrottled, Message: h.message})
	}
}
