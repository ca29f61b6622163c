package arrows

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.." // the module's

func TestImportsFollowTheDesign(t *testing.T) {
	t.Parallel()
	readFolders(t)
	for _, violation := range graphOfModule(t).Violations(Rules) {
		t.Error(violation)
	}
}

// graphOfModule asks the go command for what this module builds. With -e, since
// an import that does not exist breaks the build and says so there.
func graphOfModule(t *testing.T) Graph {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = root
	var complaint strings.Builder
	list.Stderr = &complaint
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", list, err, complaint.String())
	}
	graph := Graph{}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 0 {
			graph[words[0]] = words[1:]
		}
	}
	if _, ok := graph[fullPath("migrate")]; !ok {
		t.Fatalf("%s: package migrate is not in its answer of %d packages", list, len(graph))
	}
	return graph
}

// readFolders makes the go command's cache of test results see each change of a
// source file: it knows only what this process reads itself.
func readFolders(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
