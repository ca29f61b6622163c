//go:build unix && !linux

package localpg

import "syscall"

// attributes of a server's process: its own process group, so that a terminal's
// Ctrl-C does not reach it; or, kept, a session of its own, which outlives the
// terminal. There is no parent death signal here.
func attributes(as *account, kept bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: !kept, Setsid: kept}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}
