package wholefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Command is a file that a command reaches, as of a pooler on another host. It is
// run as `command read PATH`, which prints the contents, and as `command write PATH`,
// which takes them on its standard input and must replace the file as a whole. There
// is no lock: only the operator's lease keeps writers apart.
type Command struct {
	argv []string
	path string
}

// NewCommand gives the file that a command, with its own arguments, reaches.
func NewCommand(argv []string, path string) *Command { return &Command{argv: argv, path: path} }

// String gives the path and the command.
func (c *Command) String() string { return c.path + " (by " + c.argv[0] + ")" }

// Read gives the contents.
func (c *Command) Read(ctx context.Context) ([]byte, error) { return c.run(ctx, "read", nil) }

// Replace changes the file and reads back that it did.
func (c *Command) Replace(ctx context.Context, change Change) error {
	old, err := c.Read(ctx)
	if err != nil {
		return err
	}
	content, err := change(old)
	if err != nil || bytes.Equal(content, old) {
		return err
	}
	if _, err := c.run(ctx, "write", content); err != nil {
		return err
	}
	written, err := c.Read(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(written, content) {
		return fmt.Errorf("%s: it reads back otherwise than it was written", c)
	}
	return nil
}

func (c *Command) run(ctx context.Context, verb string, input []byte) ([]byte, error) {
	args := append(slices.Clone(c.argv[1:]), verb, c.path)
	cmd := exec.CommandContext(ctx, c.argv[0], args...)
	var out, message bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &message
	cmd.WaitDelay = time.Second // a grandchild may hold the pipes open
	if err := cmd.Run(); err != nil {
		err = errors.Join(err, ctx.Err())
		return nil, fmt.Errorf("%s %s: %w: %s", c, verb, err, lastLine(message.String()))
	}
	return out.Bytes(), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
