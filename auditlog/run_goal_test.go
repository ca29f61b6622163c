package auditlog

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// A database whose owner is not known yet may have something to bring back.
func TestNothingIsReachedBeforeOwnersAreKnown(t *testing.T) {
	t.Parallel()
	a, begun := &Applier{}, time.Now()
	a.databases = []*database{{write: link{target: postgres.Target{Name: "db0"}}}}
	g := newGoal(a, RunOptions{Once: true}, begun)
	level := Tick{Database: "db0", Direction: store.Forward, At: begun.Add(time.Second)}
	if g.note(level) {
		t.Error("reached before it is known who owns the shards")
	}
	g.expect("db0", false)
	if !g.note(level) {
		t.Error("not reached though the shards are the source's")
	}
	g.expect("db0", true)
	if g.note(level) {
		t.Error("reached while the way back is not level")
	}
}

// The answer to a commit can be lost: then both markers may be the one that the database
// names when it is there again.
func TestMarkersOfLostCommitsAreInUse(t *testing.T) {
	t.Parallel()
	var d durable
	first, second := store.Position{Marker: uuid.New()}, store.Position{Marker: uuid.New()}
	d.set(store.Forward, first)
	d.ask(store.Forward, second.Marker)
	if got := d.markers(store.Forward); !slices.Equal(got, []uuid.UUID{first.Marker, second.Marker}) {
		t.Errorf("in use before the answer: %v", got)
	}
	d.set(store.Forward, second)
	if got := d.markers(store.Forward); !slices.Equal(got, []uuid.UUID{second.Marker}) {
		t.Errorf("in use after it: %v", got)
	}
	if got := d.markers(store.Reverse); len(got) != 0 {
		t.Errorf("in use of the other direction: %v", got)
	}
}
