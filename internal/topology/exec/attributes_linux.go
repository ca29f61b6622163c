package exec

import "syscall"

// attributes of a hook: a process group of its own, so that all of it can be killed and
// a terminal's Ctrl-C does not reach it, and death with its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
