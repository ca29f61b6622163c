package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// options are the flags.
type options struct {
	suite  string
	rows   int // of the table block
	rounds int
	only   *regexp.Regexp
}

// wants reports whether a measure was asked for.
func (o options) wants(name string) bool { return o.only.MatchString(name) }

func main() {
	var o options
	var only string
	flag.StringVar(&o.suite, "suite", "main", "which measures: main, cutover, scale or large")
	flag.IntVar(&o.rows, "rows", 0, "rows of the largest table; 0 is the suite's own number")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measure, of which the median counts")
	flag.StringVar(&only, "only", "", "take only measures whose name matches this regexp")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// suites are what can be run, with their usual number of rows.
var suites = map[string]struct {
	rows int
	run  func(context.Context, options) error
}{
	"main":    {3_000_000, mainSuite},
	"cutover": {1_000_000, cutoverSuite},
	"scale":   {200_000, scaleSuite},
	"large":   {50_000_000, largeSuite},
}

func run(ctx context.Context, o options) error {
	s, known := suites[o.suite]
	if !known {
		return fmt.Errorf("there is no suite %q", o.suite)
	}
	if o.rows == 0 {
		o.rows = s.rows
	}
	if o.rounds < 1 || o.rows < 1 {
		return errors.New("rows and rounds are at least 1")
	}
	return s.run(ctx, o)
}

// say tells what is being done.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
