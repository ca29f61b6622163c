package journey

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// switchSteps are those after which a switch is hit: from the last one before its
// window to its end.
var switchSteps = []string{"pre-lock", "watchdog", "pause", "close", "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume"}

// blows are what happens to a switch.
var blows = []struct {
	name  string
	fall  func(*testing.T, *binary.Command)
	codes string // of a command that goes on; "" for one that is gone
}{
	{"killed", func(_ *testing.T, c *binary.Command) { c.Kill() }, ""},
	{"killed with its watchdog", func(_ *testing.T, c *binary.Command) {
		for _, pid := range c.Children() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		c.Kill()
	}, ""},
	{"interrupted", func(t *testing.T, c *binary.Command) { c.Signal(t, syscall.SIGINT) }, "0 7 130"},
	{"bereft of its watchdog", func(_ *testing.T, c *binary.Command) {
		for _, pid := range c.Children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}, "0 1 7"}, // 1: it was not ready yet
	{"stopped past its deadline", func(t *testing.T, c *binary.Command) {
		c.Signal(t, syscall.SIGSTOP)
		time.Sleep(shortPause + 500*time.Millisecond) // what is tested is the time
		c.Signal(t, syscall.SIGCONT)
	}, "0 1 5 7"}, // 1 and 5: before its window
}

const shortPause = 2 * time.Second

// switches is how many cutovers, and rollbacks, are hit.
func switches() int {
	if pgtest.LongForm() {
		return len(switchSteps) * len(blows)
	}
	return 8
}

// TestChaosSwitchKilled hits cutovers and rollbacks at every step in every way. No
// writer sees an error, and the next command, the same or the opposite one, goes on.
func TestChaosSwitchKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "hit", home: []int{0, 1, 0, 1}, schema: "shard_%03d", storeAs: true, servers: 2, blocks: 3_000, writers: 4, pace: 20 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	c.keepShards()
	for i := range switches() {
		j.hit("cutover", "cut_over", i)
		c.databasesServe(t, i%3 == 0)
		j.hit("rollback", "rolled_back", i+3)
		c.sourceServes(t, i%3 == 0)
	}
	j.verify()
	c.finish(t)
}

// hit begins a switch, hits it, and brings it to its end.
func (j *trip) hit(command, phase string, i int) {
	t, w := j.t, j.w
	if command == "cutover" {
		j.verify()
	}
	step, blow := switchSteps[i*5%len(switchSteps)], blows[i%len(blows)]
	if step == "close" && command == "cutover" {
		step = "lock"
	}
	what := fmt.Sprintf("%s %d, %s after %q", command, i, blow.name, step)
	c := w.begin(t, command, "--yes", "--max-pause", shortPause.String(), "--log-format", "json", "--log-level", "info")
	c.Logs(`"step":"` + step + `"`) // one that ended before is hit after its end
	blow.fall(t.(*testing.T), c)
	if blow.codes != "" {
		if r := c.Wait(t); !strings.Contains(" "+blow.codes+" ", " "+strconv.Itoa(r.Code)+" ") {
			t.Errorf("%s: %s", what, r)
		} else if _, err := r.Document(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if i%2 == 1 {
		other := map[string]string{"cutover": "rollback", "rollback": "cutover"}[command]
		if code, doc := w.run(t, other, "--yes"); code != 0 && code != 4 {
			t.Errorf("%s: %s after it: exit %d: %v", what, other, code, doc)
		}
		j.verify()
	}
	w.must(t, command, "--yes")
	w.status(t, phase)
	j.alive()
	j.c.healthy(t)
}
