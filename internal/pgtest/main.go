package pgtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, stops what they started, and fails if a
// goroutine of theirs is left. It is all that a TestMain needs to call.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: stop the shared server:", err)
		code = max(code, 1)
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: goroutines were left:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
