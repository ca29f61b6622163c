package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// program is shardctl, built for this run, with a spec.
type program struct {
	path, spec string
	peak       map[string]int64 // the largest resident set of each command, in bytes
}

// build builds shardctl into a folder.
func build(ctx context.Context, folder string) (*program, error) {
	p := &program{path: folder + "/shardctl", spec: folder + "/shardctl.yaml", peak: map[string]int64{}}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", p.path, "github.com/shardctl/shardctl/cmd/shardctl").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build shardctl: %w: %s", err, out)
	}
	return p, nil
}

// running is a started command.
type running struct {
	p        *program
	name     string
	cmd      *exec.Cmd
	out, err bytes.Buffer
	begun    time.Time
}

func (p *program) start(ctx context.Context, args ...string) (*running, error) {
	r := &running{p: p, name: args[0], begun: time.Now()}
	r.cmd = exec.CommandContext(ctx, p.path, append([]string{args[0], "-f", p.spec, "-o", "json", "--log-level", "warn", "--log-format", "json"}, args[1:]...)...)
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.WaitDelay = &r.out, &r.err, 10*time.Second
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(os.Interrupt) }
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start shardctl %s: %w", args[0], err)
	}
	return r, nil
}

// wait gives how long the command took.
func (r *running) wait() (time.Duration, error) {
	err := r.cmd.Wait()
	took := time.Since(r.begun)
	if usage, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.p.peak[r.name] = max(r.p.peak[r.name], usage.Maxrss<<10)
	}
	if err != nil {
		return took, fmt.Errorf("shardctl %s: %w: %s %s", r.name, err, r.out.String(), r.err.String())
	}
	return took, nil
}

// stop ends a command that runs until it is told to.
func (r *running) stop() error {
	_ = r.cmd.Process.Signal(os.Interrupt) // one that has ended says why below
	_, err := r.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 130 {
		return nil
	}
	return err
}

// run runs a command to its end.
func (p *program) run(ctx context.Context, args ...string) (time.Duration, error) {
	r, err := p.start(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.wait()
}

// read runs a command and decodes what it prints.
func (p *program) read(ctx context.Context, into any, args ...string) error {
	r, err := p.start(ctx, args...)
	if err != nil {
		return err
	}
	if _, err := r.wait(); err != nil {
		return err
	}
	if err := json.Unmarshal(r.out.Bytes(), into); err != nil {
		return fmt.Errorf("read what shardctl %s printed: %w", args[0], err)
	}
	return nil
}

// each runs commands one after the other.
func (p *program) each(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := p.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
