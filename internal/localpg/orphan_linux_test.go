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

// orphanServer is a server whose caller is gone.
type orphanServer struct {
	pid               int
	folder, dsn, stop string
}

// startCaller starts a caller of two servers and waits until it has said where they are.
func startCaller(t *testing.T, how string) (*exec.Cmd, []orphanServer) {
	t.Helper()
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), orphanVariable+"="+how)
	out, err := caller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	var servers []orphanServer
	lines := bufio.NewScanner(out)
	for len(servers) < 2 && lines.Scan() {
		var s orphanServer
		if _, err := fmt.Sscan(lines.Text(), &s.pid, &s.folder, &s.dsn); err != nil {
			t.Errorf("the caller said %q: %v", lines.Text(), err)
			break
		}
		_, s.stop, _ = strings.Cut(lines.Text(), s.dsn+" ")
		servers = append(servers, s)
	}
	return caller, servers
}

// A kept server outlives its caller and is not swept; its stop command removes it.
func TestKeptServersOutliveTheirCaller(t *testing.T) {
	caller, servers := startCaller(t, keepServers)
	if err := caller.Wait(); err != nil || len(servers) != 2 {
		t.Fatalf("the caller kept %d of 2 servers: %v", len(servers), err)
	}
	swept, err := NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := swept.Remove(); err != nil {
		t.Error(err)
	}
	for _, s := range servers {
		if err := answers(t.Context(), s.dsn); err != nil {
			t.Errorf("a kept server does not answer: %v", err)
		}
		if out, err := exec.Command("sh", "-c", s.stop).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", s.stop, err, out)
		}
		within(t, 20*time.Second, fmt.Sprintf("server %d to end", s.pid), func() bool { return gone(t, s.pid) })
		if _, err := os.Stat(s.folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("folder %s was left: %v", s.folder, err)
		}
	}
}

// The kernel ends the servers of a caller that was killed, and the next server
// that is started removes their folders.
func TestServersEndWithAKilledCaller(t *testing.T) {
	caller, servers := startCaller(t, "wait")
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
	for _, s := range append(servers, orphanServer{folder: c.folder.path}) {
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
