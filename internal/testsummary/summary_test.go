package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each case is a real package that go test runs: what its JSON looks like is not
// ours to say.
func TestSummaryOfRealPackages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		totals       string
		good         bool
		shows, hides string
	}{
		{"passes", `func TestA(t *testing.T) { t.Log("whisper"); t.Run("sub", func(t *testing.T) {}) }`,
			"2 passed, 0 failed, 0 skipped", true, "ok  \t", "whisper"},
		{"fails", `func TestA(t *testing.T) { t.Error("loud") }; func TestB(t *testing.T) { t.Log("whisper") }`,
			"1 passed, 1 failed, 0 skipped", false, "loud", "whisper"},
		{"skips", `func TestA(t *testing.T) { t.Skip("no disk") }; func TestB(t *testing.T) {}`,
			"1 passed, 0 failed, 1 skipped", true, "no disk", "=== never"},
		{"only skips", `func TestA(t *testing.T) { t.Skip("no disk") }`,
			"0 passed, 0 failed, 1 skipped", false, "no disk", "=== never"},
		{"has no test", `var _ *testing.T`,
			"0 passed, 0 failed, 0 skipped", false, "no tests to run", "=== never"},
		{"does not build", `func TestA(t *testing.T) { undefined() }`,
			"0 passed, 1 failed, 0 skipped", false, "undefined: undefined", "=== never"},
		{"panics", `func TestA(t *testing.T) {}; func TestB(t *testing.T) { panic("ouch") }`,
			"1 passed, 1 failed, 0 skipped", false, "ouch", "=== never"},
		{"exits 1 after its tests", `func TestA(t *testing.T) {}; func TestMain(m *testing.M) { m.Run(); println("leak"); os.Exit(1) }`,
			"1 passed, 1 failed, 0 skipped", false, "leak", "=== never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var shown strings.Builder
			got, err := summarize(strings.NewReader(testJSON(t, c.source)), &shown)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != c.totals || got.good() != c.good {
				t.Errorf("totals %q, good %t; want %q, %t", got, got.good(), c.totals, c.good)
			}
			if !strings.Contains(shown.String(), c.shows) || strings.Contains(shown.String(), c.hides) {
				t.Errorf("want %q shown and %q hidden in:\n%s", c.shows, c.hides, shown.String())
			}
		})
	}
}

func TestOutputThatIsNotJSONIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := summarize(strings.NewReader("panic: no go\n"), &strings.Builder{}); err == nil {
		t.Error("no error")
	}
}

// testJSON runs go test -json on a package of its own with the source in it.
func testJSON(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	imports := `import "testing"`
	if strings.Contains(source, "os.") {
		imports += `; import "os"`
	}
	for name, text := range map[string]string{
		"go.mod":    "module sample\n",
		"a_test.go": "package sample\n" + imports + "\n" + source + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-json", "./...")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := run.Output()
	if err != nil && len(out) == 0 {
		t.Fatalf("%s: %v", run, err)
	}
	return string(out)
}
