package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/sleep"
)

// errStuck is wrapped where a command does not come to its end, however often it is run.
var errStuck = errors.New("stuck")

// errDiffers is wrapped where verification found a difference.
var errDiffers = errors.New("verify found differences")

// runner runs one command again and again, as its messages say, until it has done its work.
type runner struct {
	s        *site
	args     []string
	forever  bool                                       // catchup, which ends only when it is told to
	mend     func(context.Context, binary.Result) error // before it is run again; nil: nothing
	group    sync.WaitGroup
	finished chan struct{}
	stop     context.CancelFunc

	mu      sync.Mutex
	now     *binary.Command
	held    bool
	begins  int
	ends    []string // of each run, for a person
	refused int      // runs that another process's lease ended
	last    binary.Result
	err     error
	from    time.Time // of the time that it may take
}

// begin starts the runner.
func (s *site) begin(ctx context.Context, args ...string) *runner {
	r := &runner{s: s, args: args, forever: args[0] == "catchup" && len(args) == 1}
	if args[0] == "cutover" {
		r.mend = s.verifyAnew
	}
	r.start(ctx)
	return r
}

func (r *runner) start(ctx context.Context) {
	r.finished, r.from = make(chan struct{}), time.Now()
	ctx, r.stop = context.WithCancel(ctx)
	r.group.Go(func() {
		defer close(r.finished)
		err := r.loop(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
	})
}

// end stops the runner and its command.
func (r *runner) end() {
	r.stop()
	r.group.Wait()
}

// wait gives how it ended.
func (r *runner) wait() error {
	<-r.finished
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

const runAgainAfter = 100 * time.Millisecond

func (r *runner) loop(ctx context.Context) error {
	for {
		c, err := r.next(ctx)
		if err != nil {
			return err
		}
		if c != nil {
			res, err := r.await(ctx, c)
			if err != nil {
				return err
			}
			done, err := r.judge(ctx, res)
			if done || err != nil {
				return err
			}
		}
		if sleep.For(ctx, runAgainAfter) != nil {
			return nil
		}
	}
}

// next begins the command, unless it is held.
func (r *runner) next(ctx context.Context) (*binary.Command, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c, err := r.s.start(r.args...)
	r.now, r.begins = c, r.begins+1
	return c, err
}

// start starts a command of the site's migration.
func (s *site) start(args ...string) (*binary.Command, error) {
	args = append(slices.Clone(args), "--file", s.spec, "--output", "json", "--no-progress", "--log-format", "json", "--log-level", "info")
	c, err := binary.Start(s.program(), s.env, args...)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.commands = append(s.commands, begun{c, time.Now()})
	}
	return c, err
}

// await waits for a command's end, within the time that it may take.
func (r *runner) await(ctx context.Context, c *binary.Command) (binary.Result, error) {
	limit := time.NewTicker(time.Second)
	defer limit.Stop()
	for {
		select {
		case <-c.Done():
			return c.Result(), nil
		case <-ctx.Done():
			c.Kill()
			return c.Result(), nil
		case <-limit.C:
			if !r.forever && r.late() {
				_ = c.Send(syscall.SIGCONT)
				_ = c.Send(syscall.SIGQUIT) // the stacks of its goroutines
				<-c.Done()
				return c.Result(), fmt.Errorf("%w: %s did not end: %s", errStuck, strings.Join(r.args, " "), c.Result())
			}
		}
	}
}

// late reports whether its time is over; that begins anew with each fault.
func (r *runner) late() bool {
	r.mu.Lock()
	from := r.from
	r.mu.Unlock()
	if hit := r.s.lastHit(); hit.After(from) {
		from = hit
	}
	return time.Since(from) > stuckAfter
}

// judge decides whether the command has to be run again.
func (r *runner) judge(ctx context.Context, res binary.Result) (done bool, err error) {
	r.mu.Lock()
	r.last, r.ends = res, append(r.ends, brief(res))
	if res.Code == leaseHeld {
		r.refused++
	}
	held := r.held
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return true, nil
	case res.Code == 0 && !r.forever:
		return true, nil
	case res.Code == 3:
		return true, fmt.Errorf("%w: %s", errDiffers, res)
	case res.Code == 64 || res.Code == 2:
		return true, fmt.Errorf("%s: %s", strings.Join(r.args, " "), res)
	case held:
		return false, nil
	case r.late() && !r.forever:
		return true, fmt.Errorf("%w: %s, run %d times: %s", errStuck, strings.Join(r.args, " "), r.begins, res)
	case r.mend != nil && res.Code != -1:
		return false, r.mend(ctx, res)
	}
	return false, nil
}

// command is the one that runs now; nil if none does.
func (r *runner) command() *binary.Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.now.Ended() {
		return nil
	}
	return r.now
}

// hold lets the command end and begins none until release.
func (r *runner) hold() {
	r.mu.Lock()
	r.held = true
	c := r.now
	r.mu.Unlock()
	if c != nil {
		_ = c.Send(syscall.SIGINT)
		<-c.Done()
	}
}

func (r *runner) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.from = false, time.Now()
}

// result is how it ended last.
func (r *runner) result() binary.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// verifyAnew is what a refused cutover asks for where the last pass is not fresh and clean.
func (s *site) verifyAnew(ctx context.Context, res binary.Result) error {
	if res.Code != 4 {
		return nil
	}
	r := s.begin(ctx, "verify")
	defer r.end()
	return r.wait()
}

// run runs a command until it has done its work.
func (s *site) run(ctx context.Context, args ...string) error {
	r := s.begin(ctx, args...)
	defer r.end()
	return r.wait()
}

// once runs a command once.
func (s *site) once(ctx context.Context, args ...string) (binary.Result, error) {
	c, err := s.start(args...)
	if err != nil {
		return binary.Result{}, err
	}
	limit := time.NewTimer(stuckAfter)
	defer limit.Stop()
	select {
	case <-c.Done():
		return c.Result(), nil
	case <-ctx.Done():
		c.Kill()
		return c.Result(), ctx.Err()
	case <-limit.C:
		_ = c.Send(syscall.SIGQUIT)
		<-c.Done()
		return c.Result(), fmt.Errorf("%w: %s did not end: %s", errStuck, strings.Join(args, " "), c.Result())
	}
}

// brief is how a command ended, and why.
func brief(res binary.Result) string {
	doc, err := res.Document()
	if res.Code == 0 || err != nil {
		return fmt.Sprint(res.Code)
	}
	if failure, ok := doc["error"].(map[string]any); ok {
		return fmt.Sprintf("%d %v: %v: %.200v", res.Code, failure["code"], failure["object"], failure["message"])
	}
	return fmt.Sprintf("%d %.300v", res.Code, doc["reason"])
}

// history is how the last runs of the command ended.
func (r *runner) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const shown = 6
	ends := r.ends
	if n := len(ends) - shown; n > 0 {
		ends = append([]string{fmt.Sprintf("%d more", n)}, ends[n:]...)
	}
	return strings.Join(ends, "; ")
}

// refusals is how many runs ended since another process held the lease.
func (r *runner) refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
