package journey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// processesOf lists the processes that work in a folder or were told to keep their
// files there. Those of others cannot be looked at, and are not ours.
func processesOf(t testing.TB, folder string) (found []string) {
	t.Helper()
	places, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, place := range places {
		cwd, _ := os.Readlink(place + "/cwd")
		environment, _ := os.ReadFile(place + "/environ")
		if strings.HasPrefix(cwd, folder) || strings.Contains(string(environment), "TMPDIR="+folder+"\x00") {
			name, _ := os.ReadFile(place + "/comm")
			found = append(found, "process "+filepath.Base(place)+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}
