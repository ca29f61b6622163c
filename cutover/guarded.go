package cutover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// answerWait bounds the watchdog's answers: one that does not answer does not guard.
const answerWait = 5 * time.Second

// readyWait bounds its start, in which it connects to every server. No client waits then.
const readyWait = 15 * time.Second

// Guarded is the command's end of the pipes to a watchdog's process.
type Guarded struct {
	watch Watch
	in    io.WriteCloser
	lines chan string // closed by the reader when the watchdog's output ends
}

// NewGuarded speaks to a watchdog over its standard input and output, and waits
// until it says that its sessions are open.
func NewGuarded(ctx context.Context, w Watch, in io.WriteCloser, out io.Reader) (*Guarded, error) {
	g := &Guarded{watch: w, in: in, lines: make(chan string, 4)}
	go func() {
		defer close(g.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			g.lines <- s.Text()
		}
	}()
	if err := g.expect(ctx, sayReady, readyWait); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return g, nil
}

// Arm starts the deadline.
func (g *Guarded) Arm(ctx context.Context, backends Backends) error {
	raw, err := json.Marshal(arming{Deadline: g.watch.Deadline, Backends: backends})
	if err != nil {
		return fmt.Errorf("arm the watchdog: %w", err)
	}
	if _, err := fmt.Fprintf(g.in, "%s%s\n", sayArm, raw); err != nil {
		return fmt.Errorf("arm the watchdog: %w", err)
	}
	return g.expect(ctx, sayArmed, answerWait)
}

// Disarm ends the guard; the process ends by itself. A watchdog that is gone is no
// error: if it has acted, the terms have decided.
func (g *Guarded) Disarm(ctx context.Context) error {
	_, err := fmt.Fprintln(g.in, sayDisarm)
	if err == nil {
		err = g.expect(ctx, sayDisarmed, answerWait)
	}
	_ = g.in.Close() // nothing is left to say
	if err != nil && !gone(err) {
		return fmt.Errorf("disarm the watchdog: %w", err)
	}
	return nil
}

// errEnded says that the watchdog's output ended.
var errEnded = errors.New("it has ended")

// gone reports whether an error says that the watchdog's process is no more.
func gone(err error) bool {
	return errors.Is(err, errEnded) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

func (g *Guarded) expect(ctx context.Context, word string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("watchdog: no %q: %w", word, ctx.Err())
	case line, open := <-g.lines:
		if !open {
			return fmt.Errorf("watchdog: no %q: %w", word, errEnded)
		}
		if line != word {
			return fmt.Errorf("watchdog: no %q but %q", word, line)
		}
		return nil
	}
}
