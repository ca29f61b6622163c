package pgtest

import (
	"testing"
	"time"
)

// Eventually polls the condition, and fails the test if it does not hold before
// the timeout. It is called from the goroutine of the test.
func Eventually(t testing.TB, timeout time.Duration, condition func() bool) {
	t.Helper()
	if !Holds(timeout, condition) {
		t.Fatalf("pgtest: the condition did not hold within %s", timeout)
	}
}

// Holds polls the condition, and reports whether it held before the timeout. It may be
// called from any goroutine.
func Holds(timeout time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(timeout)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		<-poll.C
	}
	return true
}
