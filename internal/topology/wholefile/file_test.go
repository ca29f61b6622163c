package wholefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func to(content string) Change {
	return func([]byte) ([]byte, error) { return []byte(content), nil }
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReplaceKeepsModeOwnerAndLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.ini"), filepath.Join(dir, "link.ini")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o640), os.Symlink("real.ini", link)); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = 1234
		if err := os.Chown(path, uid, 4321); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(link, false).Replace(t.Context(), to("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if read(t, link) != "new" || info.Mode() != 0o640 || int(owner.Uid) != uid {
		t.Errorf("%q, mode %s, uid %d", read(t, link), info.Mode(), owner.Uid)
	}
	if target, err := os.Readlink(link); err != nil || target != "real.ini" {
		t.Errorf("the link leads to %q: %v", target, err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 { // the file, the link, the lock
		t.Errorf("left: %v", entries)
	}
}

func TestReplaceCreatesOnlyWhereAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.json")
	if err := New(path, false).Replace(t.Context(), to("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	f := New(path, true)
	if got, err := f.Read(t.Context()); got != nil || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := f.Replace(t.Context(), to("x")); err != nil || read(t, path) != "x" {
		t.Errorf("%v", err)
	}
}

func TestRefusedOrEqualChangeWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("same"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	refused := errors.New("refused")
	if err := New(path, false).Replace(t.Context(), func([]byte) ([]byte, error) { return []byte("other"), refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if err := New(path, false).Replace(t.Context(), to("same")); err != nil {
		t.Error(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) || read(t, path) != "same" {
		t.Error("the file was replaced")
	}
}

func TestLeftoverOfAKilledWriterIsNoObstacle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, p := range []string{path, filepath.Join(filepath.Dir(path), ".f.shardctl.tmp")} {
		if err := os.WriteFile(p, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(path, false).Replace(t.Context(), to("whole")); err != nil || read(t, path) != "whole" {
		t.Errorf("%v", err)
	}
}

// TestWritersExcludeEachOther counts in the file: a lost update would show.
func TestWritersExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := New(path, false).Replace(t.Context(), func(old []byte) ([]byte, error) {
					n, err := strconv.Atoi(string(old))
					return []byte(strconv.Itoa(n + 1)), err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := read(t, path); got != "80" {
		t.Errorf("80 increments gave %s", got)
	}
}

// TestAWriterThatWasStoppedKeepsNobodyWaiting at any point before its rename, and does
// not put what it had read over what was written meanwhile.
func TestAWriterThatWasStoppedKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	add := func(old []byte) ([]byte, error) {
		n, err := strconv.Atoi(string(old))
		return []byte(strconv.Itoa(n + 1)), err
	}
	stopped, goOn, ended := make(chan string, 2), make(chan struct{}), make(chan error)
	go func() {
		ended <- New(path, false).Replace(t.Context(), func(old []byte) ([]byte, error) {
			stopped <- string(old)
			<-goOn
			return add(old)
		})
	}()
	if old := <-stopped; old != "0" {
		t.Fatalf("it read %q", old)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		if err := New(path, false).Replace(ctx, add); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := read(t, path); got != "3" {
		t.Errorf("three increments gave %s", got)
	}
	if old := <-stopped; old != "2" {
		t.Errorf("it was made anew on %q", old)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 2 { // the file, the lock
		t.Errorf("left: %v", entries)
	}
}

func TestHeldLockEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), path+".shardctl.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := New(path, false).Replace(ctx, to("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// script is a command that keeps its files in a folder.
func script(t *testing.T, body string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "via.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nset -e\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", path, "argument"}
}

func TestCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db.ini")
	if err := os.WriteFile(path, []byte("old\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := NewCommand(script(t, `[ "$1" = argument ]; case $2 in read) cat "$3";; write) cat > "$3.new"; mv "$3.new" "$3";; *) exit 9;; esac`), path)
	if got, err := good.Read(t.Context()); string(got) != "old\r\n" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
	if err := good.Replace(t.Context(), to("new, no end")); err != nil || read(t, path) != "new, no end" {
		t.Errorf("%q, %v", read(t, path), err)
	}
	for name, c := range map[string]struct{ body, want string }{
		"fails":       {`echo something >&2; echo no such host >&2; exit 3`, "no such host"},
		"keeps it":    {`case $2 in read) cat "$3";; esac`, "reads back otherwise"},
		"not a thing": {`exec /nonexistent`, "exit status"},
	} {
		err := NewCommand(script(t, c.body), path).Replace(t.Context(), to(fmt.Sprint("for ", name)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewCommand(script(t, "exec sleep 60"), path).Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hung command: %v", err)
	}
}
