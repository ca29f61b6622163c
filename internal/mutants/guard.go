package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// guard is one guard of the program: how to take it away, and the test that must
// turn red then.
type guard struct {
	name string
	why  string // what goes wrong without it
	file string // from the module's root
	old  string // stands in the file exactly once
	new  string
	also []edit // further edits that belong to it, in the same file
	pkg  string // of the test, from the module's root
	test string // its name, "TestX/sub_test"; each part is a regular expression for the whole part
	slow bool   // the test takes longer than a few seconds: not for samples
}

// edit is one replacement of a text that stands in the file exactly once.
type edit struct{ old, new string }

func (g guard) edits() []edit { return append([]edit{{g.old, g.new}}, g.also...) }

// apply gives a file's text without the guard.
func (g guard) apply(content string) (string, error) {
	for _, e := range g.edits() {
		if n := strings.Count(content, e.old); n != 1 {
			return "", fmt.Errorf("%s: its text stands %d times in %s, must stand there once: %q", g.name, n, g.file, e.old)
		}
		content = strings.Replace(content, e.old, e.new, 1)
	}
	return content, nil
}

// all are the guards, in the order of a migration.
func all() []guard {
	return slices.Concat(captureGuards, applyGuards, copyGuards, restartGuards, verifyGuards, switchGuards)
}

// noOp takes nothing away: it must survive.
var noOp = guard{
	name: "no-op: a comment",
	why:  "shows that a test turns red by the patch and not by being run here",
	file: "migrate/secret.go",
	old:  "// String hides the value.\n",
	new:  "// String shows nothing of the value.\n",
	pkg:  "migrate", test: "TestSecretFormatsAsNothing",
}

// fits reports whether every patch still applies and every test still exists.
func fits(root string, guards []guard) error {
	var errs []error
	names := map[string]bool{}
	for _, g := range append(guards, noOp) {
		if names[g.name] {
			errs = append(errs, fmt.Errorf("%s: there are two of that name", g.name))
		}
		names[g.name] = true
		content, err := os.ReadFile(filepath.Join(root, g.file))
		if err == nil {
			_, err = g.apply(string(content))
		}
		errs = append(errs, err, g.testExists(root))
	}
	return errors.Join(errs...)
}

func (g guard) testExists(root string) error {
	top, _, _ := strings.Cut(g.test, "/")
	files, err := filepath.Glob(filepath.Join(root, g.pkg, "*_test.go"))
	for _, file := range files {
		content, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		if strings.Contains(string(content), "\nfunc "+top+"(t *testing.T) {") {
			return err
		}
	}
	return errors.Join(err, fmt.Errorf("%s: there is no %s in %s", g.name, top, g.pkg))
}

// byPackage gives the guards of each package that has tests of theirs, in order.
func byPackage(guards []guard) iter.Seq2[string, []guard] {
	of := map[string][]guard{}
	for _, g := range guards {
		of[g.pkg] = append(of[g.pkg], g)
	}
	return func(yield func(string, []guard) bool) {
		for _, pkg := range slices.Sorted(maps.Keys(of)) {
			if !yield(pkg, of[pkg]) {
				return
			}
		}
	}
}

// choice is which guards are taken.
type choice struct {
	only   string
	sample int
	seed   uint64
}

func (c choice) of(guards []guard) ([]guard, error) {
	only, err := regexp.Compile(c.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	guards = slices.DeleteFunc(guards, func(g guard) bool { return !only.MatchString(g.name) || c.sample > 0 && g.slow })
	if c.sample > 0 && c.sample < len(guards) {
		shuffle := rand.New(rand.NewPCG(c.seed, 0)).Perm(len(guards))[:c.sample]
		slices.Sort(shuffle)
		drawn := make([]guard, len(shuffle))
		for i, at := range shuffle {
			drawn[i] = guards[at]
		}
		guards = drawn
	}
	if len(guards) == 0 {
		return nil, errors.New("no guard is chosen")
	}
	return guards, nil
}
