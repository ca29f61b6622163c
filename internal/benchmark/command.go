package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// program is shardctl, built for this run, with a spec.
type program struct {
	path, spec string
	peak       map[string]int64 // the most that each command had in memory, in bytes
}

// build builds shardctl into a folder.
func build(ctx context.Context, folder string) (*program, error) {
	p := &program{path: folder + "/shardctl", spec: folder + "/shardctl.yaml", peak: map[string]int64{}}
	return p, binary.Build(ctx, p.path)
}

// running is a started command.
type running struct {
	*binary.Command
	p      *program
	name   string
	begun  time.Time
	memory func() int64
	forget func() bool // the context
}

func (p *program) start(ctx context.Context, args ...string) (*running, error) {
	c, err := binary.Start(p.path, os.Environ(), append([]string{args[0], "-f", p.spec, "-o", "json", "--log-level", "warn", "--log-format", "json"}, args[1:]...)...)
	if err != nil {
		return nil, err
	}
	r := &running{Command: c, p: p, name: args[0], begun: time.Now(), memory: c.WatchMemory()}
	r.forget = context.AfterFunc(ctx, func() { _ = c.Send(syscall.SIGINT) }) // one that has ended says so below
	return r, nil
}

// wait gives how long the command took.
func (r *running) wait() (time.Duration, error) { return r.waitFor(0) }

// waitFor is wait for a command that may end with a code beside 0.
func (r *running) waitFor(code int) (time.Duration, error) {
	<-r.Done()
	took := time.Since(r.begun)
	r.forget()
	r.p.peak[r.name] = max(r.p.peak[r.name], r.memory())
	if end := r.Result(); end.Code != 0 && end.Code != code {
		return took, fmt.Errorf("shardctl %s: %s", r.name, end)
	}
	return took, nil
}

// stop ends a command that runs until it is told to.
func (r *running) stop() error {
	if err := r.Send(syscall.SIGINT); err != nil {
		return err
	}
	_, err := r.waitFor(interrupted)
	return err
}

// interrupted is the exit code of a command that was stopped.
const interrupted = 130

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
	if err := json.Unmarshal([]byte(r.Stdout()), into); err != nil {
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
