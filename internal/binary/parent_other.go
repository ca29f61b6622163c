//go:build !linux

package binary

import "syscall"

// withParent is for Linux alone; elsewhere a killed test may leave a command.
func withParent() *syscall.SysProcAttr { return nil }
