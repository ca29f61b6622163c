package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// outcome is what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	failed   outcome = "ERROR" // it cannot be told
)

// verdict is an outcome with how it came about.
type verdict struct {
	outcome outcome
	note    string
	output  string // of the compiler or the test program
	took    time.Duration
}

func (v verdict) String() string {
	return fmt.Sprintf("%s (%s, %.1f s)", v.outcome, v.note, v.took.Seconds())
}

// ending is how a test program ended.
type ending struct {
	output string
	passed bool
	cut    bool // ended from outside
	took   time.Duration
}

var resultLine = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// judge tells what became of a guard's test. Only the named test counts: a parent
// that fails before it came to it says nothing of the guard.
func judge(g guard, e ending) verdict {
	named := regexp.MustCompile("^" + strings.ReplaceAll("("+g.test+")", "/", ")/(") + "(/|$)")
	results := map[string]int{}
	for _, m := range resultLine.FindAllStringSubmatch(e.output, -1) {
		if named.MatchString(m[2]) {
			results[m[1]]++
		}
	}
	v := verdict{outcome: failed, output: e.output, took: e.took}
	switch {
	case e.cut:
		v.note = "had to be ended from outside"
	case strings.Contains(e.output, "panic: test timed out after"):
		v.outcome, v.note = killed, "hung until its own timeout"
	case results["FAIL"] > 0 && !e.passed:
		v.outcome, v.note = killed, "failed"
	case results["SKIP"] > 0:
		v.note = "the test was skipped"
	case e.passed && results["PASS"] > 0:
		v.outcome, v.note = survived, "passed"
	case e.passed:
		v.note = "there is no such test"
	default:
		v.note = "broke outside the named test"
	}
	return v
}
