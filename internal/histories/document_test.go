package histories

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheDocumentNamesTestsThatExist: docs/races.md is a list of tests, and a list is
// of no use where its tests were renamed.
func TestTheDocumentNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/races.md")
	must(t, err)
	rows := regexp.MustCompile(`(?m)^\| (.+) \| ([a-z/]+): (Test\w+)(?:/([^|]+))? \|$`).FindAllStringSubmatch(string(text), -1)
	if lines := strings.Count(string(text), "\n| ") - 1; len(rows) != lines || lines < 50 {
		t.Errorf("%d of %d lines name a test", len(rows), lines)
	}
	for _, row := range rows {
		files, err := filepath.Glob("../../" + row[2] + "/*_test.go")
		must(t, err)
		var all strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			must(t, err)
			all.Write(content)
		}
		if !strings.Contains(all.String(), "\nfunc "+row[3]+"(t *testing.T) {") {
			t.Errorf("%s: there is no %s in %s", row[1], row[3], row[2])
		}
		if row[4] != "" && !strings.Contains(all.String(), `"`+row[4]+`"`) {
			t.Errorf("%s: %s has no %q", row[1], row[3], row[4])
		}
	}
}
