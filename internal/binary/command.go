package binary

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

// Patience bounds one command; none takes a tenth of it on an idle machine.
const Patience = 3 * time.Minute

// Command is a running shardctl.
type Command struct {
	args     []string
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // closed by the goroutine of Begin when the process is gone
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

// Result is how a command ended.
type Result struct {
	Code   int // -1: by a signal
	Stdout string
	Stderr string
}

// Start starts a program that Build made, with an environment.
func Start(program string, env []string, args ...string) (*Command, error) {
	c := &Command{args: args, cmd: exec.Command(program, args...), done: make(chan struct{})}
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
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	return c, nil
}

// Begin starts the binary of this test process with an environment.
func Begin(t testing.TB, env []string, args ...string) *Command {
	t.Helper()
	c, err := Start(Path(t), env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Signal sends a signal to the process, if it is there.
func (c *Command) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := c.Send(s); err != nil {
		t.Fatal(err)
	}
}

// Send is Signal without a test.
func (c *Command) Send(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil && !c.Ended() {
		return fmt.Errorf("signal %s: %w", c, err)
	}
	return nil
}

// Kill ends the process as kill -9 does, and waits until it is gone.
func (c *Command) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.done
}

// Ended reports whether the process is gone.
func (c *Command) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Wait gives how the command ended; one that does not end in time fails the test.
func (c *Command) Wait(t testing.TB) Result {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.Signal(t, syscall.SIGQUIT) // the stacks of its goroutines
		<-c.done
		t.Fatalf("%s did not end within %s:\n%s%s", c, Patience, c.out.String(), Tail(c.err.String(), 6000))
	}
	return c.Result()
}

// Result is how the command ended, once Done is closed.
func (c *Command) Result() Result {
	<-c.done
	return Result{Code: c.cmd.ProcessState.ExitCode(), Stdout: c.out.String(), Stderr: c.err.String()}
}

// Interrupt ends a command as Ctrl-C does.
func (c *Command) Interrupt(t testing.TB) Result {
	t.Helper()
	c.Signal(t, syscall.SIGINT)
	return c.Wait(t)
}

// Done is closed when the process is gone.
func (c *Command) Done() <-chan struct{} { return c.done }

// Logs waits until the command has logged a text or has ended, and reports whether it has
// logged it.
func (c *Command) Logs(text string) bool {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !c.Ended() && !strings.Contains(c.Stderr(), text) {
		<-look.C
	}
	return strings.Contains(c.Stderr(), text)
}

// Args are its arguments.
func (c *Command) Args() []string { return c.args }

// PID is the number of its process.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// Stdout is what it has printed so far.
func (c *Command) Stdout() string { return c.out.String() }

// Stderr is what it has logged so far.
func (c *Command) Stderr() string { return c.err.String() }

// String is the command line, without its environment.
func (c *Command) String() string { return "shardctl " + strings.Join(c.args, " ") }

// Document is what a command prints with -o json.
type Document map[string]any

// String gives it as JSON, cut to what a reader can take in.
func (d Document) String() string {
	text, err := json.Marshal(map[string]any(d))
	if err != nil {
		return err.Error()
	}
	return Tail(string(text), 2000)
}

// Document decodes the one JSON document that -o json prints.
func (r Result) Document() (Document, error) {
	dec := json.NewDecoder(strings.NewReader(r.Stdout))
	var doc Document
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("stdout is no JSON document: %w: %q", err, r.Stdout)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one document on stdout: %q", r.Stdout)
	}
	return doc, nil
}

func (r Result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.Code, Tail(r.Stdout, 2000), Tail(r.Stderr, 4000))
}

// Tail is the end of a text, of n bytes at most.
func Tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
