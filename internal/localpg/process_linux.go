package localpg

import "syscall"

// attributes of a server's process: its own process group, so that a terminal's
// Ctrl-C does not reach it, and an immediate shutdown if the parent dies.
func attributes(as *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}
