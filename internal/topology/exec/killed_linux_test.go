package exec_test

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"
)

// short is a timeout that a hook that hangs is to meet.
const short = 2 * time.Second

func TestAHookThatHangsIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"probe", "commit", "readback", "resume", "forget"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r, s := hooked(t, short)
			s.misbehaves(t, verb, "hang")
			start := time.Now()
			err := verbs(t, r)[verb](t.Context())
			if f := failure(err); f.Code != "router.hook_timeout" || !strings.Contains(f.Message, verb+" did not end within 2s and was killed") || time.Since(start) > 10*short {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
			if pids, there := held[[]int](s.folder, "pids.json"); there { // else it did not come so far
				wantGone(t, pids)
			}
		})
	}
}

func TestAPauseThatFailsIsReleased(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.CancelFunc){"timed out": func(context.CancelFunc) {}, "given up": func(cancel context.CancelFunc) { cancel() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := hooked(t, 5*time.Second)
			s.misbehaves(t, "pause", "pausing")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			go func() { done <- r.Pause(ctx, nil) }()
			pids := s.started(t)
			end(cancel)
			if err := <-done; err == nil || !strings.Contains(err.Error(), "was killed with all that it had started") {
				t.Errorf("%v", err)
			}
			wantGone(t, pids)
			if s.holds(0) || s.calls() != "pause[0 1 2 3] resume[0 1 2 3]" {
				t.Errorf("held: %t, calls: %s", s.holds(0), s.calls())
			}
			s.behaves(t, "pause")
			if err := errors.Join(r.Pause(t.Context(), nil), r.Resume(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAPauseThatIsRefusedIsReleased(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	s.misbehaves(t, "pause", "veto")
	if err := r.Pause(t.Context(), nil); failure(err).Code != "router.veto" || s.calls() != "pause[0 1 2 3] resume[0 1 2 3]" {
		t.Errorf("%v; calls: %s", err, s.calls())
	}
}

func TestResumeEndsAPauseThatStillRuns(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	s.misbehaves(t, "pause", "pausing")
	done := make(chan error)
	go func() { done <- r.Pause(t.Context(), nil) }()
	pids := s.started(t)
	if err := r.Resume(t.Context()); err != nil {
		t.Error(err)
	}
	if s.holds(0) {
		t.Error("clients are held after Resume")
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "resume was called") {
		t.Errorf("pause: %v", err)
	}
	wantGone(t, pids)
	if s.holds(0) {
		t.Error("the pause holds clients after all")
	}
}

func TestWhatAHookLeavesIsKilled(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	s.misbehaves(t, "forget", "stray")
	start := time.Now()
	if err := r.Forget(t.Context()); err != nil || time.Since(start) > patient/2 {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	wantGone(t, s.started(t))
}

// A process that is killed in the middle of a pause takes the hook along: it cannot
// hold clients after a watchdog has released them.
func TestAHookDiesWithItsShardctl(t *testing.T) {
	t.Parallel()
	_, s := hooked(t, patient)
	s.misbehaves(t, "pause", "pausing")
	other := osexec.Command(os.Args[0], "pause", s.folder)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	pids := s.started(t)
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	wantGone(t, pids[:1])
	if child, err := os.FindProcess(pids[1]); err == nil {
		_ = child.Kill() // what a hook has started is its own
	}
}
