package journey

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/binary"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := binary.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, "journey: remove the binary:", err)
		code = max(code, 1)
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "journey: goroutines were left:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
