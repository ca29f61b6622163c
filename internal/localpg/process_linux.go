package localpg

import "syscall"

// attributes of a server's process: its own process group, so that a terminal's
// Ctrl-C does not reach it, and an immediate shutdown if the parent dies; or, kept, a
// session of its own, which outlives parent and terminal.
func attributes(as *account, kept bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if kept {
		attr = &syscall.SysProcAttr{Setsid: true}
	}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}
