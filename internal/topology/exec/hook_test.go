package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology"
)

// The test program is the hook too: `program hook FOLDER VERB`. Its state is files in
// the folder: topology.json, held.json. A file named as a verb says how it misbehaves.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "hook" {
		os.Exit(hook(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 3 && os.Args[1] == "pause" { // another process, to be killed
		_ = run(patient, os.Args[0], "hook", os.Args[2]).Pause(context.Background(), nil)
		os.Exit(0)
	}
	pgtest.Main(m)
}

// asked is what the hook is given, read as strictly as it can be.
type asked struct {
	Verb       string             `json:"verb"`
	Migration  string             `json:"migration"`
	Epoch      int64              `json:"epoch"`
	Shards     []int              `json:"shards"`
	Topology   *topology.Topology `json:"topology"`
	DeadlineMS int64              `json:"deadline_ms"`
}

func hook(folder, verb string) int {
	d := json.NewDecoder(os.Stdin)
	d.DisallowUnknownFields()
	var q asked
	if err := d.Decode(&q); err != nil || q.Verb != verb || q.Migration != "blocks" || q.DeadlineMS <= 0 || q.Topology != nil && q.Epoch != q.Topology.Epoch {
		fmt.Fprintf(os.Stderr, "bad question %+v: %v\n", q, err)
		return 9
	}
	note(folder, q)
	unlock := lock(folder)
	defer unlock()
	if how, err := os.ReadFile(filepath.Join(folder, verb)); err == nil {
		return misbehave(folder, string(how))
	}
	return serve(folder, q)
}

// serve does what a good hook does.
func serve(folder string, q asked) int {
	have, _ := held[topology.Topology](folder, "topology.json")
	answer := map[string]any{"epoch": have.Epoch}
	switch q.Verb {
	case "probe", "commit":
		if have.Epoch > q.Epoch {
			break // it says what it holds
		}
		if q.Verb == "commit" {
			write(folder, "topology.json", q.Topology)
			answer["epoch"] = q.Epoch
		}
	case "readback":
		answer["topology"] = have
		if have.Version == 0 {
			delete(answer, "topology")
		}
	case "pause":
		before, _ := held[[]int](folder, "held.json")
		write(folder, "held.json", append(before, q.Shards...))
		return 0
	case "resume":
		write(folder, "held.json", []int{})
		return 0
	case "forget":
		have.Epoch = 0
		for i := range have.Shards {
			have.Shards[i].Epoch = 0
		}
		if have.Version != 0 {
			write(folder, "topology.json", have)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
	return 0
}

func misbehave(folder, how string) int {
	switch how {
	case "veto":
		fmt.Fprintf(os.Stderr, "first\nsecond\nthird\x1b[31m\nlast %s\n", strings.Repeat("x", 10_000))
		return 3
	case "mute":
		return 1
	case "silent":
		return 0
	case "complain":
		fmt.Println(`{"findings":[{"severity":"error","message":"two of three proxies are down","fix":"start them"}]}`)
		return 0
	case "environment":
		fmt.Fprintln(os.Stderr, strings.Join(os.Environ(), " "))
		return 1
	case "huge":
		_, _ = io.CopyN(os.Stdout, zeros{}, 64<<20)
		return 0
	case "hang", "stray", "pausing":
		child := osexec.Command("sleep", "100")
		if how == "stray" {
			child.Stdout = os.Stdout // it holds the pipe open
		}
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 9
		}
		if how == "pausing" {
			write(folder, "held.json", []int{0, 1, 2, 3})
		}
		write(folder, "pids.json", []int{os.Getpid(), child.Process.Pid})
		if how == "stray" {
			return 0
		}
		fmt.Fprintln(os.Stderr, "waiting for a proxy")
		_ = child.Wait()
		return 0
	default:
		fmt.Print(how)
		return 0
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// note keeps what the hook was called with.
func note(folder string, q asked) {
	f, err := os.OpenFile(filepath.Join(folder, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintf(f, "%s%v ", q.Verb, q.Shards)
		_ = f.Close()
	}
}

// lock keeps hooks of several processes apart, as a good hook does.
func lock(folder string) (unlock func()) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	return func() { _ = f.Close() }
}

func write(folder, name string, value any) {
	content, err := json.Marshal(value)
	temporary := filepath.Join(folder, name+".tmp")
	if err = errors.Join(err, os.WriteFile(temporary, content, 0o600), os.Rename(temporary, filepath.Join(folder, name))); err != nil {
		panic(err)
	}
}

// held reads a file of the state; one that is not there is empty.
func held[T any](folder, name string) (value T, there bool) {
	content, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return value, false
	}
	if err = errors.Join(err, json.Unmarshal(content, &value)); err != nil {
		panic(err)
	}
	return value, true
}

// state is a hook's folder, as a test sees it.
type state struct{ folder string }

func (s state) misbehaves(t *testing.T, verb, how string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, verb), []byte(how), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s state) behaves(t *testing.T, verb string) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.folder, verb)); err != nil {
		t.Fatal(err)
	}
}

func (s state) holds(shard int) bool {
	shards, _ := held[[]int](s.folder, "held.json")
	return slices.Contains(shards, shard)
}

func (s state) calls() string {
	content, _ := os.ReadFile(filepath.Join(s.folder, "calls"))
	return strings.TrimSpace(string(content))
}

// started waits until the misbehaving hook has said which processes there are.
func (s state) started(t *testing.T) (pids []int) {
	t.Helper()
	pgtest.Eventually(t, 20*time.Second, func() bool {
		var there bool
		pids, there = held[[]int](s.folder, "pids.json")
		return there
	})
	return pids
}

// wantGone fails unless the processes end.
func wantGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		pgtest.Eventually(t, 10*time.Second, func() bool { return ended(pid) })
	}
}

// ended reports whether a process is gone, or only waits to be taken note of.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(status), ") ")
	return strings.HasPrefix(after, "Z")
}
