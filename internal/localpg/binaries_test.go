package localpg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPostgresIsFoundThroughALinkInPath(t *testing.T) {
	real, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		fakeProgram(t, filepath.Join(real, name))
	}
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(bin, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := FindPostgres(); err != nil || got != want {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
}

func TestAPostgresWithoutInitdbIsNoServer(t *testing.T) {
	bin := t.TempDir()
	fakeProgram(t, filepath.Join(bin, "postgres"))
	t.Setenv("PATH", bin)
	if got, err := firstServer([]string{bin}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "install") {
		t.Errorf("found %q, %v; want ErrNotFound with what to install", got, err)
	}
}

func TestNewestVersionComesFirst(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"9", "15", "13"} {
		if err := os.MkdirAll(filepath.Join(base, "pg-"+version), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := newestFirst(filepath.Join(base, "pg-*"))
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	if want := []string{"pg-15", "pg-13", "pg-9"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

func fakeProgram(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
