package localpg

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The kernel ends the servers of a caller that was killed, and the next server
// that is started removes their folders.
func TestServersEndWithAKilledCaller(t *testing.T) {
	type server struct {
		pid    int
		folder string
	}
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), orphanVariable+"=1")
	out, err := caller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	var servers []server
	lines := bufio.NewScanner(out)
	for len(servers) < 2 && lines.Scan() {
		var s server
		if _, err := fmt.Sscan(lines.Text(), &s.pid, &s.folder); err != nil {
			t.Errorf("the caller said %q: %v", lines.Text(), err)
			break
		}
		servers = append(servers, s)
	}
	if err := caller.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = caller.Wait() // killed
	if len(servers) != 2 {
		t.Fatalf("the caller started %d of 2 servers", len(servers))
	}

	for _, s := range servers {
		within(t, 20*time.Second, fmt.Sprintf("server %d to end", s.pid), func() bool { return gone(t, s.pid) })
	}
	c, err := NewCluster(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range append(servers, server{folder: c.folder.path}) {
		if _, err := os.Stat(s.folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("folder %s was left: %v", s.folder, err)
		}
	}
}

// gone reports whether no process of that id is left; a zombie that nobody has
// waited for yet counts as gone.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", limit, what)
		}
		<-poll.C
	}
}
