package journey

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// kills is how often each of catchup and backfill is killed.
func kills() int {
	if full() {
		return 20
	}
	return 4
}

// slowly makes a backfill last long enough to be killed often.
func slowly(rows int) string { return fmt.Sprintf("throttle: {max_rate: %d}\n", rows) }

// TestChaosKilled kills catchup and backfill in the middle of their work, and runs the same
// command again at once: it goes on, copies no finished chunk again, and loses nothing.
func TestChaosKilled(t *testing.T) {
	t.Parallel()
	const rate = 8_000
	w := newWorld(t, shape{
		migration: "killed", home: []int{0, 1, 0, 1}, schema: "shard_%03d", storeAs: true,
		blocks: rate * kills() * 3 / 2, writers: 4, pace: 5 * time.Millisecond, extra: slowly(rate),
	})
	c := w.startCrowd(t)
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	random := rand.New(rand.NewPCG(1, uint64(kills())))
	catchup, backfill := w.begin(t, "catchup"), w.begin(t, "backfill")
	var atWork [2]int
	for i := range kills() {
		before := w.ledger()
		for k, victim := range []**command{&backfill, &catchup} {
			if w.killAtWork(t, random, *victim) > 0 {
				atWork[k]++
			}
			*victim = w.begin(t, (*victim).args[0])
		}
		kept(t, before, w.ledger())
		t.Logf("kill %d: %d chunks were finished", i+1, len(before))
	}
	for k, name := range []string{"backfill", "catchup"} {
		if atWork[k]*4 < kills()*3 {
			t.Errorf("only %d of %d kills of %s hit it at work", atWork[k], kills(), name)
		}
	}
	before := w.ledger()
	if r := backfill.wait(t); r.code != 0 {
		t.Fatalf("the last backfill: %s\n%s", r, catchup.err.String())
	}
	kept(t, before, w.ledger())
	j := &trip{t: t, w: w, c: c, catchup: catchup}
	j.verify()
	j.alive()
	c.sourceServes(t, true)
	c.finish(t)
}
