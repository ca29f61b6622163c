package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/binary"
)

// lanes is how many cases run at a time.
const lanes = 2

// mostRefused is how many of the cases that may be either are refused.
const mostRefused = 8

func TestMain(m *testing.M) {
	code := m.Run()
	if err := binary.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, "cases: remove the binary:", err)
		code = max(code, 1)
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "cases: goroutines were left:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// folder is where the cases are.
func folder() string {
	if dir := os.Getenv("SHARDCTL_CASES_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "testdata", "cases")
}

func TestCases(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(folder(), "*.sql"))
	must(t, err)
	if len(paths) == 0 {
		t.Fatalf("no cases in %s", folder())
	}
	free := make(chan *lane, lanes)
	for range lanes {
		free <- newLane(t)
	}
	var mu sync.Mutex
	var results []result
	t.Run("all", func(t *testing.T) {
		for _, path := range paths {
			f, err := readFile(path)
			must(t, err)
			t.Run(f.id, func(t *testing.T) {
				t.Parallel()
				l := <-free
				t.Cleanup(func() { free <- l })
				got := newRun(t, l, f).whole()
				mu.Lock()
				defer mu.Unlock()
				results = append(results, got)
			})
		}
	})
	document(t, results, len(paths))
	refused := 0
	for _, r := range results {
		if r.outcome != "exact" && r.file.outcome != "refuse" {
			refused++
			t.Logf("%s %s is %s: %s", r.file.id, r.file.title, r.outcome, r.why)
		}
	}
	if refused > mostRefused {
		t.Errorf("%d cases are refused that may be either, more than %d", refused, mostRefused)
	}
}
