//go:build !linux

package journey

import (
	"syscall"
	"testing"
)

// withParent is for Linux alone; elsewhere a killed test may leave a command.
func withParent() *syscall.SysProcAttr { return nil }

// processesOf is for Linux alone.
func processesOf(testing.TB, string) []string { return nil }
