package histories

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shortForm is how many histories the ordinary test plays, the same ones each time.
const shortForm = 24

// TestHistories plays a few, or the one that the environment names.
func TestHistories(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("SHARDCTL_HISTORY_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		again(t, seed, os.Getenv("SHARDCTL_HISTORY_STEPS"))
		return
	}
	playAll(t, 1, shortForm)
}

// TestChaosHistories plays some that were never played before: SHARDCTL_HISTORIES of them,
// of which make chaos wants hundreds.
func TestChaosHistories(t *testing.T) {
	t.Parallel()
	count := 6
	if text := os.Getenv("SHARDCTL_HISTORIES"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		must(t, err)
	}
	playAll(t, 1000+rand.Uint64N(1<<32), count)
}

// playAll plays the histories of so many numbers, each shape's on a world of its own.
func playAll(t *testing.T, first uint64, count int) {
	for lane := range shapes {
		shape := shapes[lane]
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			w, began, played := newWorld(t, shape), time.Now(), 0
			for seed := first; seed < first+uint64(count); seed++ {
				if int(seed%uint64(len(shapes))) != lane {
					continue
				}
				h := newHistory(seed, shape)
				if err := w.play(t.Context(), h); err != nil {
					fail(t, h, shape, err)
				}
				played++
			}
			t.Logf("%d histories from %d on, %.2f a second", played, first, float64(played)/time.Since(began).Seconds())
		})
	}
}

// shrinkTries bounds how long a failure is made smaller; each try is a world.
const shrinkTries = 60

// fail shrinks a history that failed, each try on a world of its own, and ends the test.
func fail(t *testing.T, h history, s shape, err error) {
	t.Helper()
	t.Logf("history %d (%s, batch %d, chunks of %d pages) failed: %v", h.seed, s.name, h.batch, h.pages, err)
	left, last := shrink(h, shrinkTries, func(shorter history) error { return alone(t, shorter, s) })
	if last == nil {
		last = err
	}
	t.Fatalf("history %d failed with\n%v\nsteps:\n%s", h.seed, last, h.show(left))
}

var tried atomic.Int64

// alone plays a history on a new world.
func alone(t *testing.T, h history, s shape) (err error) {
	t.Helper()
	t.Run("try"+strconv.FormatInt(tried.Add(1), 10), func(t *testing.T) { err = newWorld(t, s).play(context.Background(), h) })
	return err
}

// again plays one history, or those of its steps.
func again(t *testing.T, seed uint64, steps string) {
	t.Helper()
	s := shapes[seed%uint64(len(shapes))]
	h := newHistory(seed, s)
	if steps != "" {
		var places []int
		for _, text := range strings.Split(steps, ",") {
			n, err := strconv.Atoi(text)
			must(t, err)
			places = append(places, n)
		}
		h = h.only(places)
	}
	if err := alone(t, h, s); err != nil {
		fail(t, h, s, err)
	}
}
