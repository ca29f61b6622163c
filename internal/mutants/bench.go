package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// grace is how long a test program may go on past its own timeout before it is
// ended from outside.
const grace = 30 * time.Second

// bench is a copy of the module in which guards are taken out and put back.
type bench struct {
	dir     string // temporary: the copy and the test program
	timeout time.Duration
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	path := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(path) != "go.mod" {
		return "", fmt.Errorf("not inside the module: go env GOMOD says %q: %w", path, err)
	}
	return filepath.Dir(path), nil
}

func newBench(root string, timeout time.Duration) (*bench, error) {
	dir, err := os.MkdirTemp("", "shardctl-mutants-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, timeout: timeout}
	if err := copyModule(root, b.module()); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the module: %w", err), os.RemoveAll(dir))
	}
	return b, nil
}

func (b *bench) module() string  { return filepath.Join(b.dir, "module") }
func (b *bench) program() string { return filepath.Join(b.dir, "test.program") }

func (b *bench) close() {
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(os.Stderr, "mutants: remove the copy:", err)
	}
}

// copyModule copies a folder without what git keeps and make builds.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case relative == ".git" || relative == "bin":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil // a worktree's .git is a file
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), content, info.Mode())
	})
}

// green makes sure that the tests of one package's guards pass as the code is.
func (b *bench) green(ctx context.Context, guards []guard) (time.Duration, error) {
	if out, err := b.build(ctx, guards[0]); err != nil {
		return 0, fmt.Errorf("%s does not compile: %w\n%s", guards[0].pkg, err, out)
	}
	patterns := make([]string, len(guards))
	for i, g := range guards {
		patterns[i] = g.pattern()
	}
	slices.Sort(patterns)
	out := b.runTests(ctx, guards[0].pkg, strings.Join(slices.Compact(patterns), "|"))
	for _, g := range guards {
		if v := judge(g, out); v.outcome != survived {
			return out.took, fmt.Errorf("%s %s: %s\n%s", g.pkg, g.test, v, v.output)
		}
	}
	return out.took, ctx.Err()
}

// mutate takes one guard out, runs its test, and puts the guard back.
func (b *bench) mutate(ctx context.Context, g guard) (v verdict, err error) {
	path := filepath.Join(b.module(), g.file)
	content, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	patched, err := g.apply(string(content))
	if err != nil {
		return v, err
	}
	if err := os.WriteFile(path, []byte(patched), 0o644); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, content, 0o644)) }()
	if out, err := b.build(ctx, g); err != nil {
		return verdict{outcome: failed, note: "does not compile", output: out}, ctx.Err()
	}
	return judge(g, b.runTests(ctx, g.pkg, g.pattern())), ctx.Err()
}

func (b *bench) build(ctx context.Context, g guard) (output string, err error) {
	// Without vet, which mutants need not please, and without what debuggers need.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", b.program(), "./"+g.pkg)
	cmd.Dir = b.module()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runTests runs the test program that was built last.
func (b *bench) runTests(ctx context.Context, pkg, pattern string) ending {
	ctx, cancel := context.WithTimeout(ctx, b.timeout+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program(), "-test.v", "-test.count=1", "-test.timeout="+b.timeout.String(), "-test.run="+pattern)
	cmd.Dir = filepath.Join(b.module(), pkg)
	cmd.WaitDelay = 5 * time.Second // servers that it started hold its output open
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	return ending{output: out.String(), passed: err == nil, cut: ctx.Err() != nil, took: time.Since(start)}
}

// pattern makes -run take the named test and no other.
func (g guard) pattern() string {
	parts := strings.Split(g.test, "/")
	for i, part := range parts {
		parts[i] = "^(" + part + ")$"
	}
	return strings.Join(parts, "/")
}
