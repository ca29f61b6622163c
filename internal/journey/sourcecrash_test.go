package journey

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// watched is a command that is begun again, as an operator would, when it ends because a
// server is gone.
type watched struct {
	*binary.Command
	w      *world
	begins int
	over   bool // it ended with 0
}

func (w *world) watch(t testing.TB, args ...string) *watched {
	t.Helper()
	return &watched{Command: w.begin(t, args...), w: w, begins: 1}
}

// revive begins the command again if it has ended for a technical reason. Any other end
// but success fails the test.
func (c *watched) revive(t testing.TB) {
	t.Helper()
	if c.over || !c.Ended() {
		return
	}
	r := c.Wait(t)
	switch r.Code {
	case 0:
		c.over = true
	case 1:
		c.begins++
		c.Command = c.w.begin(t, c.Args()[0])
	default:
		t.Fatalf("%s: %s", c, r)
	}
}

// slowly makes a backfill last long enough for what a test does meanwhile.
func slowly(rows int) string { return fmt.Sprintf("throttle: {max_rate: %d}\n", rows) }

// TestChaosSourceCrashes stops the source as a crash does, five times under load, while
// rows are copied and applied. Clients see errors then; what they were acknowledged
// before has to be there, once and in its place.
func TestChaosSourceCrashes(t *testing.T) {
	t.Parallel()
	const rate, crashes = 6_000, 5
	w := newWorld(t, shape{
		migration: "crashed", home: []int{0, 1, 0, 1}, schema: "shard_%03d",
		blocks: 45_000, writers: 4, pace: 15 * time.Millisecond, extra: slowly(rate),
	})
	c := w.startCrowd(t)
	c.rest(func() {
		for _, x := range c.writers {
			x.tolerant = true
		}
	})
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	catchup, backfill := w.watch(t, "catchup"), w.watch(t, "backfill")
	random := rand.New(rand.NewPCG(2, crashes))
	for range crashes {
		c.acknowledge(t, 20+random.IntN(60))
		if backfill.over {
			t.Error("backfill had ended before a crash: it proves nothing about it")
		}
		w.source.Stop(t, "immediate")
		w.source.Start(t)
		eventually(t, binary.Patience, "catchup and backfill to go on", func() bool {
			catchup.revive(t)
			backfill.revive(t)
			return text(w.must(t, "status"), "capture.running") == "true"
		})
	}
	eventually(t, binary.Patience, "backfill to end", func() bool {
		catchup.revive(t)
		backfill.revive(t)
		return backfill.over
	})
	t.Logf("catchup was begun %d times, backfill %d times", catchup.begins, backfill.begins)
	j := &trip{t: t, w: w, c: c, catchup: catchup.Command}
	j.verify()
	complaints := func() int { return strings.Count(catchup.Stderr(), "tended") }
	before := complaints()
	c.acknowledge(t, 300)
	if n := complaints() - before; n > 0 {
		t.Errorf("catchup still complains of the crashes (%d times): %s", n, binary.Tail(catchup.Stderr(), 500))
	}
	c.sourceServes(t, true)
	c.finish(t)
}
