package cutover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// stage is a migration with clients and a pooler, on which switches are hit.
type stage struct {
	*rig
	gate   *turnstile
	crowd  *crowd
	probes map[*pgtest.Database]*pgx.Conn
	pause  time.Duration // what clients may wait
	named  []string      // the databases that are switched, if not all
	late   string        // which write took longer than it may in the last trial
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{rig: newRig(t), gate: newTurnstile(t), pause: 2 * time.Second}
	owners, err := store.LoadOwnership(t.Context(), s.connect("owners", s.source), "m")
	must(t, err)
	doc, err := topology.Build(s.cfg.Layout.Spec, owners)
	must(t, err)
	must(t, s.cfg.Routers[0].Commit(t.Context(), doc))
	s.probes = map[*pgtest.Database]*pgx.Conn{s.source: s.source.Connect(t), s.db0: s.db0.Connect(t), s.db1: s.db1.Connect(t)}
	s.crowd = s.startCrowd(s.gate)
	return s
}

// actor is a switch in a process of its own, and its watchdog in this one.
type actor struct {
	*stage
	cmd   *exec.Cmd
	lines chan string // that it says; closed at its end
	goOn  *os.File
	guard chan error  // the watchdog's word at its end; nil if it had nothing to do or was never asked for
	asked atomic.Bool // for the watchdog
	left  string      // by the command that has overtaken it
	log   *strings.Builder
}

// begin starts a switch that is to be hit.
func (s *stage) begin(o order) *actor {
	t := s.t
	t.Helper()
	o.Spec, o.Turnstile, o.MaxPause = s.spec, s.gate.listener.Addr().String(), s.pause
	raw, err := json.Marshal(o)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	a := &actor{stage: s, cmd: exec.Command(self), lines: make(chan string, 8), guard: make(chan error, 1), log: &strings.Builder{}}
	a.cmd.Env = append(os.Environ(), orderVariable+"="+string(raw))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a stopped one is ended by the kernel if the test is
	a.cmd.Stderr = a.log
	heard, says := pipe(t)
	hears, goOn := pipe(t)
	in, guardIn := pipe(t)
	guardOut, out := pipe(t)
	a.goOn = goOn
	a.cmd.ExtraFiles = []*os.File{says, hears, guardIn, guardOut}
	must(t, a.cmd.Start())
	for _, f := range a.cmd.ExtraFiles {
		_ = f.Close() // the process has its own
	}
	go func() {
		defer close(a.lines)
		for l := bufio.NewScanner(heard); l.Scan(); {
			a.lines <- l.Text()
		}
		_ = heard.Close()
	}()
	go a.watch(in, out)
	return a
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	return r, w
}

// watch is the watchdog's process, if one is asked for.
func (a *actor) watch(in, out *os.File) {
	defer func() { _, _ = in.Close(), out.Close() }()
	requests := bufio.NewReader(in)
	raw, err := requests.ReadBytes('\n')
	var w cutover.Watch
	if err != nil || json.Unmarshal(raw, &w) != nil {
		a.guard <- nil
		return
	}
	a.asked.Store(true)
	cfg := configOf(a.cfg.Layout, a.verdict, nil)
	cfg.Only, cfg.MaxPause = w.Databases, w.Deadline
	router := order{Turnstile: a.gate.listener.Addr().String()}.router(a.cfg.Layout.Spec)
	defer router.Close()
	cfg.Routers = []topology.Router{router}
	_, err = cutover.Guard(context.Background(), cfg, w.Direction, requests, out)
	a.guard <- err
}

// patience bounds each wait for a process.
const patience = 60 * time.Second

// hear waits until it says a word, or something that begins with it.
func (a *actor) hear(word string) (string, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, open := <-a.lines:
			if !open || strings.HasPrefix(line, word) {
				return line, open
			}
		case <-timer.C:
			_ = a.cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
			_ = a.cmd.Process.Signal(syscall.SIGCONT)
			a.t.Errorf("no %q within %s", word, patience)
			timer.Reset(time.Second)
			word = "{"
		}
	}
}

func (a *actor) release() { _, _ = fmt.Fprintln(a.goOn) }

func (a *actor) signal(s syscall.Signal) { _ = a.cmd.Process.Signal(s) }

// end waits for the process and its watchdog. Result is nil for one that said nothing.
func (a *actor) end() (r *result, guard error) {
	if line, said := a.hear("{"); said {
		r = &result{}
		must(a.t, json.Unmarshal([]byte(line), r))
	}
	_ = a.goOn.Close()
	_ = a.cmd.Wait()
	for range a.lines { // up to its end
	}
	select {
	case guard = <-a.guard:
	case <-time.After(patience):
		guard = errors.New("the watchdog does not end")
	}
	return r, guard
}

// again runs a command, as the message of one that was hit says.
func (s *stage) again(o order) {
	s.t.Helper()
	s.ended(o, s.attempt(o))
}

func (s *stage) ended(o order, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s again: %v", o.Direction, err)
	}
}

// attempt runs a command until it is neither kept out by what another one left of a lease,
// nor out of time: then it says that traffic is where it was, and to run it again.
func (s *stage) attempt(o order) error {
	o.Turnstile, o.MaxPause = s.gate.listener.Addr().String(), s.pause
	for deadline := time.Now().Add(patience); ; {
		report, err := o.command(context.Background(), s.cfg.Layout, s.verdict, nil)
		if err == nil && report.Outcome != cutover.Done && report.Outcome != cutover.Nothing {
			return fmt.Errorf("it is %s", report.Outcome)
		}
		code := migrate.ExitCode(err)
		if code != migrate.ExitLeaseHeld && code != migrate.ExitAborted || time.Now().After(deadline) {
			return err
		}
		s.crowd.breathe()
	}
}
