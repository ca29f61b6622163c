//go:build !linux

package localpg

import (
	"errors"
	"time"
)

// ServerCPU is what all processes of a server have used so far. It is for Linux alone.
func ServerCPU(int) (time.Duration, error) {
	return 0, errors.New("the CPU of a server can be read on Linux only")
}
