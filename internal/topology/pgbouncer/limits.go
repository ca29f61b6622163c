package pgbouncer

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// openFiles is the limit of open files of a pooler on this host, by its pidfile; 0 is
// not known. No command of the console tells it.
func (l *look) openFiles() int {
	if !onThisHost(l.in.admin.Host) || l.config["pidfile"] == "" {
		return 0
	}
	text, err := os.ReadFile(l.config["pidfile"])
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	process := filepath.Join("/proc", strconv.Itoa(pid))
	if name, err := os.ReadFile(filepath.Join(process, "comm")); err != nil || strings.TrimSpace(string(name)) != "pgbouncer" {
		return 0 // a pidfile that is older than a restart
	}
	limits, err := os.ReadFile(filepath.Join(process, "limits"))
	if err != nil {
		return 0
	}
	return softFiles(limits)
}

// softFiles reads the soft limit from /proc/PID/limits.
func softFiles(limits []byte) int {
	for s := bufio.NewScanner(bytes.NewReader(limits)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.Atoi(fields[0])
				return n
			}
		}
	}
	return 0
}

func onThisHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}
