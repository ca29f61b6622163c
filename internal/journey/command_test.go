package journey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds one command; none takes a tenth of it on an idle machine.
const patience = 3 * time.Minute

// command is a running shardctl.
type command struct {
	args     []string
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // closed by the goroutine of begin when the process is gone
}

// output is a buffer that may be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// result is how a command ended.
type result struct {
	code   int // -1: by a signal
	stdout string
	stderr string
}

// begin starts the binary with an environment.
func begin(t testing.TB, env []string, args ...string) *command {
	t.Helper()
	c := &command{args: args, cmd: exec.Command(binary(t), args...), done: make(chan struct{})}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = env, &c.out, &c.err, withParent()
	// A child of a killed command may hold its pipes for a while.
	c.cmd.WaitDelay = 5 * time.Second
	started := make(chan error, 1)
	go func() {
		// The parent death signal is about this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // the exit code is read from the state
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start shardctl %s: %v", strings.Join(args, " "), err)
	}
	return c
}

// signal sends a signal to the process, if it is there.
func (c *command) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !c.ended() {
		t.Fatalf("signal %s: %v", c, err)
	}
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (c *command) kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.done
}

func (c *command) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait gives how the command ended; one that does not end in time fails the test.
func (c *command) wait(t testing.TB) result {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.signal(t, syscall.SIGQUIT) // the stacks of its goroutines
		<-c.done
		t.Fatalf("%s did not end within %s:\n%s%s", c, patience, c.out.String(), tail(c.err.String(), 6000))
	}
	return result{code: c.cmd.ProcessState.ExitCode(), stdout: c.out.String(), stderr: c.err.String()}
}

// interrupt ends a command as Ctrl-C does.
func (c *command) interrupt(t testing.TB) result {
	t.Helper()
	c.signal(t, syscall.SIGINT)
	return c.wait(t)
}

func (c *command) String() string { return "shardctl " + strings.Join(c.args, " ") }

// document is what a command prints with -o json.
type document map[string]any

// String gives it as JSON, cut to what a reader can take in.
func (d document) String() string {
	text, err := json.Marshal(map[string]any(d))
	if err != nil {
		return err.Error()
	}
	return tail(string(text), 2000)
}

// document decodes the one JSON document that -o json prints.
func (r result) document() (document, error) {
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	var doc document
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("stdout is no JSON document: %w: %q", err, r.stdout)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one document on stdout: %q", r.stdout)
	}
	return doc, nil
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.code, tail(r.stdout, 2000), tail(r.stderr, 4000))
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
