package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the one binary of this test process, built by the first test.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// Path gives the path of shardctl, built without -race: its speed is part of what
// is tested.
func Path(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "shardctl-binary-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.folder, "shardctl"), "github.com/shardctl/shardctl/cmd/shardctl")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build shardctl: %v", built.err)
	}
	return filepath.Join(built.folder, "shardctl")
}

// Remove removes what Path built; TestMain calls it at the end.
func Remove() error {
	if built.folder == "" {
		return nil
	}
	return os.RemoveAll(built.folder)
}
