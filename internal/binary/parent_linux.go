package binary

import "syscall"

// withParent makes a command end when the thread that started it does.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
