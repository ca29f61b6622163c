package journey

import (
	"testing"
	"time"
)

// lag bounds how long the side that an applier writes may take to be level.
const lag = 30 * time.Second

// sourceServes checks, while the writers rest, the side that the application writes:
// the source has to be right at once. The databases become level.
func (c *crowd) sourceServes(t testing.TB, level bool) {
	t.Helper()
	c.rest(func() {
		c.compare(t, "the source, where the application writes", 0, c.sourceDiffers)
		if level {
			c.compare(t, "the databases, which follow", lag, c.databasesDiffer)
			c.compare(t, "the copies of the everywhere table", lag, c.copiesDiffer)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// databasesServe is the same after a cutover. The source follows by the reverse log.
func (c *crowd) databasesServe(t testing.TB, level bool) {
	t.Helper()
	c.rest(func() {
		c.compare(t, "the databases, where the application writes", 0, c.databasesDiffer)
		c.compare(t, "the copies of the everywhere table", lag, c.copiesDiffer)
		if level {
			c.compare(t, "the source, which follows", lag, c.sourceDiffers)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// compare looks until nothing differs or the time is over; it looks once at least.
func (c *crowd) compare(t testing.TB, what string, within time.Duration, differs func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		verdict := differs()
		if verdict == "" {
			return
		}
		if !time.Now().Before(deadline) {
			t.Errorf("%s: %s", what, verdict)
			return
		}
	}
}

// resting gives what a comparison says while the writers rest.
func (c *crowd) resting(differs func() string) (verdict string) {
	c.rest(func() { verdict = differs() })
	return verdict
}
