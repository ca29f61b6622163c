package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a running child whose output goes to a file.
type process struct {
	cmd  *exec.Cmd
	name string
	log  string
	from int64         // where in the log this process began to write
	done chan struct{} // closed by the goroutine of startProcess when the child is gone
}

// startProcess runs the command in a folder, as the account; kept lets it outlive this
// process. The child is started from a thread that waits for it, because the kernel's
// parent death signal is about the thread that started it, not about the whole process.
func startProcess(as *account, kept bool, dir, log, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", log, err)
	}
	info, err := out.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stat log %s: %w", log, err), out.Close())
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = environment(dir)
	cmd.SysProcAttr = attributes(as, kept)
	p := &process{cmd: cmd, name: path, log: log, from: info.Size(), done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer func() { _ = out.Close() }()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is read from the log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// environment is the caller's without PostgreSQL's own variables, which would
// change what a server or initdb does, and with messages in English.
func environment(home string) []string {
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "LC_")
	})
	return append(kept, "HOME="+home, "LC_ALL=C")
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends the signal and waits until the process is gone; one that does not
// go in time is killed, which is an error.
func (p *process) end(ctx context.Context, signal syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s (pid %d): %w", p.name, p.pid(), err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("stop %s (pid %d): did not end in time and was killed: %w", p.name, p.pid(), ctx.Err())
	}
}

// finish waits for a program that ends by itself.
func (p *process) finish(ctx context.Context, what string) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		// Killed, it would leave a program that it started, which goes on writing.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return errors.Join(ctx.Err(), p.end(ending, syscall.SIGTERM))
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s: %s", what, p.cmd.ProcessState, p.logTail())
	}
	return nil
}

// waitReady polls the check until it succeeds, the process ends or time is up.
func (p *process) waitReady(ctx context.Context, check func(context.Context) error) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("start %s: it ended at once: %s", p.name, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %s", p.name, errors.Join(ctx.Err(), err), p.logTail())
		case <-poll.C:
		}
	}
}

// said reports whether the process wrote the text into its log.
func (p *process) said(text string) bool { return p != nil && strings.Contains(p.output(), text) }

// logTail gives the last that the process wrote into its log, on one line.
func (p *process) logTail() string { return oneLine(p.output()) }

// oneLine gives the end of what a program said, on one line.
func oneLine(text string) string {
	const keep = 1000
	text = strings.TrimSpace(text)
	if len(text) > keep {
		text = "…" + strings.ToValidUTF8(text[len(text)-keep:], "")
	}
	return strings.ReplaceAll(text, "\n", " | ")
}

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil || int64(len(text)) < p.from {
		return fmt.Sprintf("(its log %s cannot be read: %v)", p.log, err)
	}
	return string(text[p.from:])
}
