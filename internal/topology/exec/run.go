package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// mostOutput is far more than a document of ten thousand shards.
	mostOutput = 16 << 20
	// keptErrors is what is kept of the end of standard error.
	keptErrors = 4 << 10
	// outputGrace is how long output is waited for once the hook has ended: a process
	// that it left may hold the pipes open.
	outputGrace = 500 * time.Millisecond
)

// Why a hook was killed.
var (
	errTimeout = errors.New("it did not end in time")
	errOutput  = errors.New("it wrote more than 16 MB")
	errResumed = errors.New("resume was called")
)

// passed are the variables that a hook is given; LC_* too. None of them is a secret of
// shardctl's: DSNs are in variables of the operator's choice.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSH_AUTH_SOCK"}

func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(passed, name) && !strings.HasPrefix(name, "LC_")
	})
}

// output is what a hook said.
type output struct {
	out    []byte
	errors string // the end of standard error
}

// run runs a program until it ends or ctx does, and kills its process group in any
// case. The error is an *exec.ExitError, the cause of ctx's end, or why it could not
// be started.
func run(ctx context.Context, argv []string, input []byte) (output, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, said := &bounded{full: func() { cancel(errOutput) }}, &tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, said
	cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = environment(), attributes(), outputGrace
	cmd.Cancel = func() error { return killGroup(cmd) }
	ended := make(chan error)
	go func() { // the parent death signal is about the thread that starts the child
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	err := <-ended
	if cmd.Process != nil {
		_ = killGroup(cmd) // what it left; its number cannot be another's so soon
	}
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it ended well, and left a process that held the pipes
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return output{out.Bytes(), said.lines()}, err
}

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// bounded keeps what is written up to a limit, and tells when it is passed.
type bounded struct {
	bytes.Buffer
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostOutput {
		b.full()
		return 0, errOutput
	}
	return b.Buffer.Write(p)
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-keptErrors):]...)
	if extra := len(t.kept) - keptErrors; extra > 0 {
		t.kept = slices.Delete(t.kept, 0, extra)
	}
	return len(p), nil
}

// lines gives the last lines on one, without control characters.
func (t *tail) lines() string {
	const lines, most = 3, 500
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "?")), "\n")
	text := strings.Join(all[max(0, len(all)-lines):], " | ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
