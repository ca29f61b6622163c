package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// document checks docs/cases.md against what came out, or writes it. Other folders'
// cases are not its business, nor is a run of a part.
func document(t *testing.T, results []result, whole int) {
	t.Helper()
	if os.Getenv("SHARDCTL_CASES_DIR") != "" || len(results) != whole {
		return
	}
	slices.SortFunc(results, func(a, b result) int { return strings.Compare(a.file.id, b.file.id) })
	var b strings.Builder
	b.WriteString("# Cases\n\nFailures that tools of this kind were reported for, each taken through the whole journey (`go test ./internal/cases`, `testdata/cases`).\n" +
		"*Exact*: every row on both sides equal, and where its key belongs, after the copy, the cutover and the rollback. *Refused*: by `plan`, with nothing changed.\n\n" +
		"| case | may be | was | what was refused |\n|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s %s | %s | %s | %s |\n", r.file.id, r.file.title, r.file.outcome, r.outcome, cell(r.why))
	}
	path := filepath.Join("..", "..", "docs", "cases.md")
	if os.Getenv("SHARDCTL_CASES_DOC") == "write" {
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return
	}
	have, err := os.ReadFile(path)
	must(t, err)
	if string(have) != b.String() {
		t.Errorf("docs/cases.md is not what came out: run SHARDCTL_CASES_DOC=write go test ./internal/cases\n%s", b.String())
	}
}

// ports change from run to run.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func cell(text string) string {
	first, _, _ := strings.Cut(text, "; ")
	return strings.ReplaceAll(ports.ReplaceAllString(first, "127.0.0.1"), "|", `\|`)
}
