package journey

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// crowd is all writers at work.
type crowd struct {
	w       *world
	writers []*writer
	gate    sync.RWMutex // a writer holds it shared for a request, whoever makes them rest alone
	stop    chan struct{}
	group   errgroup.Group
	once    sync.Once
	ended   error
	broken  chan error // the first error of a writer, for whoever waits for them
}

// startCrowd loads the tables and lets the writers begin. The first error of a writer
// is an error of the test.
func (w *world) startCrowd(t testing.TB) *crowd {
	t.Helper()
	c := &crowd{w: w, writers: w.load(), stop: make(chan struct{}), broken: make(chan error, 1)}
	for _, x := range c.writers {
		c.group.Go(func() error {
			defer x.close()
			err := c.work(x)
			if err != nil {
				select {
				case c.broken <- err:
				default:
				}
			}
			return err
		})
	}
	t.Cleanup(func() { _ = c.end() })
	return c
}

// work makes requests until the crowd stops.
func (c *crowd) work(x *writer) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.stop:
			return nil
		case <-timer.C:
		}
		if err := c.request(x); err != nil {
			return err
		}
		timer.Reset(c.w.pace)
	}
}

// stuck is longer than any pause that a test allows.
const stuck = time.Minute

func (c *crowd) request(x *writer) error {
	c.gate.RLock()
	defer c.gate.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	return x.next(ctx)
}

// rest makes all writers rest while fn looks at, or changes, what they share.
func (c *crowd) rest(fn func()) {
	c.gate.Lock()
	defer c.gate.Unlock()
	fn()
}

// keepShards lets keys change within a logical shard only, from now on.
func (c *crowd) keepShards() {
	c.rest(func() {
		for _, x := range c.writers {
			x.sameShard = true
		}
	})
}

// end stops the writers and gives the first error of any.
func (c *crowd) end() error {
	c.once.Do(func() {
		close(c.stop)
		c.ended = c.group.Wait()
	})
	return c.ended
}

// finish ends the crowd, fails the test for an error of a writer, and says what they did.
func (c *crowd) finish(t testing.TB) {
	t.Helper()
	if err := c.end(); err != nil {
		t.Errorf("a writer saw an error: %v", err)
	}
	kinds, total := map[string]int{}, 0
	for _, x := range c.writers {
		for _, s := range x.spans {
			kinds[s.kind]++
			total++
		}
	}
	for _, choice := range []string{"insert page", "update block", "delete block", "change key", "move comment", "mixed", "insert plan"} {
		if kinds[choice] == 0 {
			t.Errorf("no request of kind %q was acknowledged", choice)
		}
	}
	t.Logf("%d requests acknowledged: %v", total, kinds)
}

// healthy fails the test at once if a writer saw an error, or does not go on.
func (c *crowd) healthy(t testing.TB) {
	t.Helper()
	c.acknowledge(t, 1)
}

func (c *crowd) acknowledged() (counts []int) {
	c.rest(func() {
		for _, x := range c.writers {
			counts = append(counts, len(x.spans))
		}
	})
	return counts
}

// acknowledge waits until n more requests of every writer were acknowledged.
func (c *crowd) acknowledge(t testing.TB, n int) {
	t.Helper()
	before := c.acknowledged()
	eventually(t, time.Minute, fmt.Sprintf("%d more requests of each writer", n), func() bool {
		select {
		case err := <-c.broken:
			c.broken <- err
			t.Fatalf("a writer saw an error: %v", err)
		default:
		}
		for i, now := range c.acknowledged() {
			if now < before[i]+n {
				return false
			}
		}
		return true
	})
}

// longest is the longest that a request took which overlaps a time.
func (c *crowd) longest(from, to time.Time) (most time.Duration) {
	c.rest(func() {
		for _, x := range c.writers {
			for _, s := range x.spans {
				if s.end.After(from) && s.start.Before(to) {
					most = max(most, s.end.Sub(s.start))
				}
			}
		}
	})
	return most
}

// eventually polls until the condition holds, or fails the test.
func eventually(t testing.TB, timeout time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", timeout, what)
		}
		<-poll.C
	}
}
