package cutover_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// trial is one blow to one switch at one point of its way.
type trial struct {
	d       cutover.Direction
	step    string
	done    bool   // after the step's work, not before it
	closed  string // of "close": the blow falls when this database's fence is up and the other's is not
	differs bool   // the switch finds a difference, so that it comes to its undo
	blow    string
	only    []string
}

func (c trial) String() string {
	at := "before"
	if c.done {
		at = "after"
	}
	if c.closed != "" {
		at = "with " + c.closed + " alone closed, in"
	}
	if c.only != nil {
		return fmt.Sprintf("%s of %v, %s %q: %s", c.d, c.only, at, c.step, c.blow)
	}
	return fmt.Sprintf("%s, %s %q: %s", c.d, at, c.step, c.blow)
}

// partOf are steps of the course that are no step of their own in the journal.
var partOf = map[string]string{"gate: routers probed": "gate: routers"}

// partialSteps are those at which a switch of one database is hit.
var partialSteps = []string{"lock", "close", "commit", "open", "flip"}

// trialsOf lists every blow at every point of a switch: of the way that it goes, and of
// its undo.
func trialsOf(d cutover.Direction) (out []trial) {
	for _, blow := range blows {
		for _, done := range []bool{false, true} {
			for _, step := range cutover.CourseOf(d) {
				if partOf[step] == "" {
					out = append(out, trial{d: d, step: step, done: done, blow: blow})
				}
			}
			out = append(out, trial{d: d, step: "undo", done: done, blow: blow, differs: true})
		}
		if d == cutover.Back {
			for _, name := range []string{"db0", "db1"} { // k of N fences, 0 < k < N
				out = append(out, trial{d: d, step: "close", blow: blow, closed: name})
			}
		}
	}
	return out
}

// partialTrialsOf lists those of a switch of one database.
func partialTrialsOf(d cutover.Direction) (out []trial) {
	for _, c := range trialsOf(d) {
		if slices.Contains(partialSteps, c.step) && c.closed == "" {
			c.only = []string{"db0"}
			out = append(out, c)
		}
	}
	return out
}

// sampled keeps, of each step and blow, one of its moments, and of those every kill of
// a cutover and a third of the rest, drawn by the seed. SHARDCTL_JOURNEY=full keeps all,
// and SHARDCTL_TRIALS those that match.
func sampled(all []trial, random *rand.Rand) []trial {
	if some := os.Getenv("SHARDCTL_TRIALS"); some != "" {
		like := regexp.MustCompile(some)
		return slices.DeleteFunc(all, func(c trial) bool { return !like.MatchString(c.String()) })
	}
	if pgtest.LongForm() {
		return all
	}
	all = slices.Clone(all)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c trial) bool {
		kind := c.step + c.blow + c.closed
		if seen[kind] {
			return true
		}
		seen[kind] = true
		always := c.d == cutover.Forward && c.blow == killed && c.only == nil
		return !always && random.IntN(3) > 0
	})
}

// seed is the commit's where make names it; it is printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SHARDCTL_SEED")
	if text == "" {
		text = strconv.FormatUint(rand.Uint64N(1<<32), 10)
	}
	n, err := strconv.ParseUint(text, 0, 64)
	must(t, err)
	t.Logf("SHARDCTL_SEED=%s", text)
	return n
}

// stages is how many migrations are hit side by side: most of a blow is a wait.
const stages = 4

// TestChaosSwitchHitAtEveryStep hits a cutover and a rollback at both ends of every step
// that the table of steps names, in every way, while clients write: what was acknowledged
// is where its owner is, nobody waited longer than the pause allows, nobody is left held,
// each key has one side that takes writes, and the command that is run again ends.
func TestChaosSwitchHitAtEveryStep(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, seed(t)))
	forth, back := sampled(trialsOf(cutover.Forward), random), sampled(trialsOf(cutover.Back), random)
	var group sync.WaitGroup // not t.Parallel: there is more to wait for than to compute
	for n := range stages {
		group.Go(func() {
			t.Run(fmt.Sprintf("%d of %d", n+1, stages), func(t *testing.T) { playOn(t, share(forth, n, stages), share(back, n, stages)) })
		})
	}
	group.Wait()
}

// TestChaosSwitchOfOneDatabaseHit does so with one database of two.
func TestChaosSwitchOfOneDatabaseHit(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, seed(t)))
	playOn(t, sampled(partialTrialsOf(cutover.Forward), random), sampled(partialTrialsOf(cutover.Back), random))
}

// share is every nth trial.
func share(all []trial, n, of int) (out []trial) {
	for i := n; i < len(all); i += of {
		out = append(out, all[i])
	}
	return out
}

// playOn goes there and back on a stage of its own until every trial was had.
func playOn(t *testing.T, forth, back []trial) {
	if len(forth)+len(back) == 0 {
		return
	}
	s, start := newStage(t), time.Now()
	s.named = slices.Concat(forth, back)[0].only
	for i := range max(len(forth), len(back)) {
		s.turn(cutover.Forward, forth, i)
		s.turn(cutover.Back, back, i)
	}
	s.crowd.fresh()
	t.Logf("%d trials in %s, %d writes, %d of them refused and sent again; the longest took %s",
		len(forth)+len(back), time.Since(start).Round(time.Millisecond), s.crowd.all, s.crowd.allRefused, s.crowd.longest.Round(time.Millisecond))
}

// turn is one switch in a direction: a trial, or a plain one where there is none left.
func (s *stage) turn(d cutover.Direction, trials []trial, i int) {
	s.t.Helper()
	switch {
	case s.t.Failed():
	case i < len(trials):
		s.inTime(trials[i])
	default:
		s.again(order{Direction: d, Only: s.named})
	}
}

// inTime has one trial, and has it again where a client has waited for too long: who waits
// for a processor, since the machine has other work, does not do so each time.
func (s *stage) inTime(c trial) {
	s.t.Helper()
	for n := range waits {
		if s.try(c); s.late == "" || s.t.Failed() {
			return
		}
		s.t.Logf("%s (%d of %d)", s.late, n+1, waits)
		if n+1 < waits {
			s.again(order{Direction: opposite(c.d), Only: c.only})
		}
	}
	s.t.Error(s.late)
}

// waits is how many times a trial is had before a wait that is too long is its own.
const waits = 3

func opposite(d cutover.Direction) cutover.Direction {
	return map[cutover.Direction]cutover.Direction{cutover.Forward: cutover.Back, cutover.Back: cutover.Forward}[d]
}
