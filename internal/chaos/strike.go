package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/sleep"
)

// strike plays one fault and says what was at work when it hit; "" if nothing was.
func (g *game) strike(ctx context.Context, a *act, f fault) (at string, err error) {
	if why := g.record.impossible(f.kind); why != "" {
		return "", nil
	}
	if a.name == copying || a.name == served {
		if err := sleep.For(ctx, g.between(0, 600*time.Millisecond)); err != nil {
			return "", err
		}
	}
	switch f.kind {
	case killed:
		return g.kill(ctx, a)
	case stopped:
		return g.freeze(ctx, a)
	case sourceDown:
		return g.crash(ctx, a, g.source)
	case baseDown:
		return g.crash(ctx, a, g.someBase())
	case poolerDown:
		return g.killPooler(ctx, a)
	case cutOff:
		return g.cut(ctx, a)
	case halfOpen:
		return g.hang(ctx, a)
	case slow:
		return g.slowDown(ctx, a)
	case commitCut:
		return g.cutCommit(ctx, a)
	case diskFull:
		return g.fillDisk(ctx, a)
	case second:
		return g.rival(ctx, a)
	case longRunning:
		return g.longTransaction(ctx, a)
	case ddl:
		return g.addColumn(ctx, a)
	case hostile:
		at, _ := g.moment(ctx, a, g.source)
		return at, nil
	}
	return "", fmt.Errorf("no such kind of fault: %s", f.kind)
}

func (g *game) someBase() *node { return g.bases[g.random.IntN(len(g.bases))] }

// steps of a switch, in the order in which they are logged when they have ended.
var steps = map[string][]string{
	"cutover":  {"pre-lock", "watchdog", "pause", "lock", "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume"},
	"rollback": {"pre-lock", "watchdog", "pause", "close", "drain", "sequences", "delta", "fence", "commit", "open", "flip", "read back", "resume"},
}

// switches reports whether the stage is a switch, with windows too short to look for.
func (a *act) switches() bool { return steps[a.main.args[0]] != nil }

// step waits until a switch has taken a random step, and says which.
func (g *game) step(ctx context.Context, a *act) (*binary.Command, string) {
	all := steps[a.main.args[0]]
	want := all[g.random.IntN(len(all))]
	seen, _ := until(ctx, a, func() (*binary.Command, bool) {
		c := a.main.command()
		return c, c != nil && strings.Contains(c.Stderr(), `"step":"`+want+`"`)
	})
	return seen, fmt.Sprintf("%s after step %q", a.main.args[0], want)
}

// moment waits until shardctl is at work on some servers, and says at what.
func (g *game) moment(ctx context.Context, a *act, nodes ...*node) (string, bool) {
	if a.switches() {
		c, at := g.step(ctx, a)
		if c == nil || c.Ended() {
			return "", false
		}
		return at, true
	}
	pattern := "shardctl %"
	if a.name == checking {
		pattern = workers["verify"]
	}
	names, ok := until(ctx, a, func() ([]string, bool) {
		names := g.look.open(ctx, pattern, nodes...)
		return names, len(names) > 0
	})
	return strings.Join(names, ", "), ok
}

// worker names what a stage's command has open when it is at work: a tick, a chunk, a
// comparison.
var workers = map[string]string{"catchup": "shardctl %apply%", "backfill": "shardctl backfill", "verify": "shardctl verify%"}

// victim is the runner whose command is hit.
func (g *game) victim(a *act) *runner {
	if a.name == copying && g.random.IntN(2) > 0 {
		return g.catchup
	}
	return a.main
}

// still finds a command at work and stops it there, as SIGSTOP does.
func (g *game) still(ctx context.Context, a *act) (*binary.Command, string) {
	if a.switches() {
		c, at := g.step(ctx, a)
		if c == nil || c.Ended() || c.Send(syscall.SIGSTOP) != nil {
			return nil, ""
		}
		return c, at
	}
	r := g.victim(a)
	var at string
	seen, _ := until(ctx, a, func() (*binary.Command, bool) {
		c := r.command()
		if c == nil || len(g.look.open(ctx, workers[r.args[0]], g.nodes()...)) == 0 || c.Send(syscall.SIGSTOP) != nil {
			return nil, false
		}
		// Only what is open while it stands still is certainly hit.
		names := g.look.open(ctx, workers[r.args[0]], g.nodes()...)
		if len(names) == 0 || c.Ended() {
			_ = c.Send(syscall.SIGCONT)
			return nil, false
		}
		at = fmt.Sprintf("%s with %s", r.args[0], strings.Join(names, ", "))
		return c, true
	})
	return seen, at
}

// kill ends a command at work as kill -9 does; a switch now and then with its watchdog.
func (g *game) kill(ctx context.Context, a *act) (string, error) {
	c, at := g.still(ctx, a)
	if c == nil {
		return "", nil
	}
	if g.random.IntN(2) > 0 {
		for _, pid := range c.Children() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			at += ", and its watchdog"
		}
	}
	c.Kill()
	return at, sleep.For(ctx, g.between(0, 300*time.Millisecond))
}

// freeze stops a command for a while: shorter or longer than a switch may take.
func (g *game) freeze(ctx context.Context, a *act) (string, error) {
	c, at := g.still(ctx, a)
	if c == nil {
		return "", nil
	}
	d := g.between(200*time.Millisecond, maxPause+2*time.Second)
	err := sleep.For(ctx, d)
	return fmt.Sprintf("%s, for %s", at, d.Round(time.Millisecond)), errors.Join(err, c.Send(syscall.SIGCONT))
}

// crash stops a server as a crash does, and starts it again.
func (g *game) crash(ctx context.Context, a *act, n *node) (string, error) {
	at, ok := g.moment(ctx, a, n)
	if !ok {
		return "", nil
	}
	mode := []string{"immediate", "kill"}[g.random.IntN(2)]
	if err := n.Stop(ctx, mode); err != nil {
		return "", err
	}
	err := sleep.For(ctx, g.between(0, 1500*time.Millisecond))
	return fmt.Sprintf("%s of %s: %s", mode, n.name, at), errors.Join(err, n.Start(ctx))
}

func (g *game) killPooler(ctx context.Context, a *act) (string, error) {
	at, ok := g.moment(ctx, a, g.nodes()...)
	if !ok {
		return "", nil
	}
	if err := g.bouncer.Kill(ctx); err != nil {
		return "", err
	}
	err := sleep.For(ctx, g.between(0, time.Second))
	return at, errors.Join(err, g.bouncer.Start(ctx))
}

// rival runs the command of a stage a second time: one of the two has to say that it may
// not.
func (g *game) rival(ctx context.Context, a *act) (string, error) {
	r := a.main
	if a.name == copying {
		r = g.catchup // backfills may share the work
	}
	var failed error
	at, _ := until(ctx, a, func() (string, bool) {
		first, before := r.command(), r.refusals()
		if first == nil {
			return "", false
		}
		refused, err := g.compete(ctx, r, before)
		if err != nil {
			failed = err
			return "", true
		}
		return fmt.Sprintf("%s, pid %d", strings.Join(r.args, " "), first.PID()), refused
	})
	return at, failed
}

// leaseHeld is the exit code of the one that may not.
const leaseHeld = 5

// compete runs a runner's command beside it, until either was refused. One that got its way
// is left to end; a catchup would not.
func (g *game) compete(ctx context.Context, r *runner, before int) (bool, error) {
	c, err := g.start(r.args...)
	if err != nil {
		return false, err
	}
	defer c.Kill()
	if r.forever {
		err := g.patiently(ctx, func() error {
			if !c.Ended() && r.refusals() == before {
				return errors.New("two processes catch up, and neither is refused")
			}
			return nil
		})
		if !c.Ended() {
			_ = c.Send(syscall.SIGINT)
		}
		if err != nil {
			return false, err
		}
	}
	limit := time.NewTimer(stuckAfter)
	defer limit.Stop()
	select {
	case <-c.Done():
		return c.Result().Code == leaseHeld || r.refusals() > before, nil
	case <-limit.C:
		return false, fmt.Errorf("%w: a second %s did not end: %s", errStuck, strings.Join(r.args, " "), c.Stderr())
	}
}
