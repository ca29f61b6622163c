//go:build unix && !linux

package localpg

import "syscall"

// attributes of a server's process: its own process group, so that a terminal's
// Ctrl-C does not reach it. There is no parent death signal here.
func attributes(as *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}
