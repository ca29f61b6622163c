//go:build unix && !linux

package exec

import "syscall"

// attributes of a hook: a process group of its own, so that all of it can be killed and
// a terminal's Ctrl-C does not reach it. There is no parent death signal here.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
