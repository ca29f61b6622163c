package binary

import (
	"context"
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
		built.err = Build(context.Background(), filepath.Join(built.folder, "shardctl"))
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.folder, "shardctl")
}

// Build builds shardctl as a file.
func Build(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/shardctl/shardctl/cmd/shardctl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build shardctl: %w\n%s", err, out)
	}
	return nil
}

// Remove removes what Path built; TestMain calls it at the end.
func Remove() error {
	if built.folder == "" {
		return nil
	}
	return os.RemoveAll(built.folder)
}
