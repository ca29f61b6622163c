package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action     string
	Package    string
	Test       string
	Output     string
	ImportPath string // of build-output
}

// totals counts tests, subtests included. A package that fails without a failed
// test of its own (it does not build, panics, leaks, runs out of time) counts as
// one failure.
type totals struct{ passed, failed, skipped int }

func (t totals) good() bool { return t.failed == 0 && t.passed > 0 }

func (t totals) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// test names a test; a package itself has no test name.
type test struct{ pkg, name string }

// summary holds what was said and has not been shown or dropped yet.
type summary struct {
	out    io.Writer
	totals totals
	said   map[test][]string
	failed map[string]bool // packages with a failed test of their own
}

func summarize(in io.Reader, out io.Writer) (totals, error) {
	s := summary{out: out, said: map[test][]string{}, failed: map[string]bool{}}
	lines := json.NewDecoder(in)
	for {
		var e event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return s.totals, nil
		}
		if err != nil {
			return s.totals, fmt.Errorf("read the output of go test -json: %w", err)
		}
		s.take(e)
	}
}

func (s *summary) take(e event) {
	of := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		s.show(e.Output)
	case "output":
		s.output(of, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		s.endTest(of, e.Action)
	}
}

// output keeps what a test or its package says until it is known how it ends,
// but for the line that the package ends with.
func (s *summary) output(of test, text string) {
	if of.name == "" && isVerdict(text) {
		s.show(text)
		return
	}
	s.said[of] = append(s.said[of], text)
}

// isVerdict reports whether the line is the one that go test prints for a
// package without -v.
func isVerdict(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

func (s *summary) endTest(of test, action string) {
	switch action {
	case "pass":
		s.totals.passed++
	case "skip":
		s.totals.skipped++
		s.show(s.said[of]...)
	case "fail":
		s.totals.failed++
		s.failed[of.pkg] = true
		s.show(s.said[of]...)
	}
	delete(s.said, of)
}

// endPackage shows, for a package that failed, what is left: its own words and
// those of tests that never ended, as after a panic.
func (s *summary) endPackage(e event) {
	var left []test
	for of := range s.said {
		if of.pkg == e.Package {
			left = append(left, of)
		}
	}
	slices.SortFunc(left, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, of := range left {
		if e.Action == "fail" {
			s.show(s.said[of]...)
		}
		delete(s.said, of)
	}
	if e.Action == "fail" && !s.failed[e.Package] {
		s.totals.failed++
	}
}

func (s *summary) show(texts ...string) {
	for _, text := range texts {
		_, _ = io.WriteString(s.out, text) // nothing can be done about a closed standard output
	}
}
