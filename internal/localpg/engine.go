package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Engine is a container engine on this machine, driven by its command line: docker, or
// podman, which has the same.
type Engine struct{ program string }

// FindEngine gives an engine that answers. ErrNotFound is wrapped where there is none;
// one that is there and does not answer is another error.
func FindEngine(ctx context.Context) (*Engine, error) {
	err := ErrNotFound
	for _, name := range []string{"docker", "podman"} {
		program, lookErr := exec.LookPath(name)
		if lookErr != nil {
			continue
		}
		e := &Engine{program: program}
		_, answerErr := e.run(ctx, engineAnswer, nil, "version", "--format", "{{.Server.Version}}")
		if answerErr == nil {
			return e, nil
		}
		err = answerErr
	}
	return nil, fmt.Errorf("a container engine (docker, podman): %w", err)
}

// engineAnswer bounds what needs no image; enginePull the download of one.
const (
	engineAnswer = 30 * time.Second
	enginePull   = 10 * time.Minute
)

// run executes one command of the engine, with added environment, and gives what it
// printed. A terminal's Ctrl-C does not reach it.
func (e *Engine) run(ctx context.Context, limit time.Duration, environment []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.program, args...)
	cmd.Env = append(cmd.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", e.program, args[0], errors.Join(ctx.Err(), err), oneLine(complaint.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// fetch gets an image, unless it is there.
func (e *Engine) fetch(ctx context.Context, image string) error {
	if _, err := e.run(ctx, engineAnswer, nil, "image", "inspect", image); err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := e.run(ctx, enginePull, nil, "pull", image)
	return err
}

// logTail gives the last that a container wrote, on one line.
func (e *Engine) logTail(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, e.program, "logs", "--tail", "5", name).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return oneLine(string(out))
}
