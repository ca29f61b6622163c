package journey

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// kills is how often each of catchup and backfill is killed.
func kills() int {
	if pgtest.LongForm() {
		return 20
	}
	return 4
}

// TestChaosKilled kills catchup and backfill in the middle of their work, and runs the same
// command again at once: it goes on, copies no finished chunk again, and loses nothing.
func TestChaosKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{
		migration: "killed", home: []int{0, 1, 0, 1}, schema: "shard_%03d", storeAs: true,
		blocks: 30_000 * kills(), writers: 4, pace: 15 * time.Millisecond,
	})
	c := w.startCrowd(t)
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	random := rand.New(rand.NewPCG(1, uint64(kills())))
	looker := w.looker(t)
	catchup, backfill := w.begin(t, "catchup"), w.begin(t, "backfill")
	finished := w.ledger()
	for _, victim := range []**binary.Command{&backfill, &catchup} {
		atWork := 0
		for i := range kills() {
			// Every other time it first gets further than the last one did.
			further := func() bool { return victim == &catchup || i%2 == 0 || len(w.ledger()) > len(finished) }
			if looker.killAtWork(t, random, *victim, further) > 0 {
				atWork++
			}
			now := w.ledger()
			kept(t, finished, now)
			finished = now
			*victim = w.begin(t, (*victim).Args()[0])
		}
		t.Logf("%s was killed %d times, %d of them at work; %d chunks were finished then", (*victim).Args()[0], kills(), atWork, len(finished))
		if atWork*4 < kills()*3 {
			t.Errorf("too few kills of %s hit it at work", (*victim).Args()[0])
		}
	}
	if r := backfill.Wait(t); r.Code != 0 {
		t.Fatalf("the last backfill: %s\n%s", r, catchup.Stderr())
	}
	kept(t, finished, w.ledger())
	j := &trip{t: t, w: w, c: c, catchup: catchup}
	j.verify()
	j.alive()
	c.sourceServes(t, true)
	c.finish(t)
}
