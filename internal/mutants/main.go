// Command mutants shows that the program's guards have teeth: it takes each guard of
// its list out of a copy of the module, one at a time, and the test that is named for
// it must turn red. It prints a line for each, then one JSON line, and exits 1 if a
// guard was missed by its test, or if its list does not fit the code any more: the
// text of a guard must stand in its file exactly once, with -only and -sample too.
//
//	go run ./internal/mutants [-only REGEXP] [-sample N -seed S]
//
// A test is red if it failed itself, or if it hung until its own timeout, which the
// test program then says. Whatever else goes wrong (the mutant does not compile, the
// test program panics, a fixture fails) is an error and kills nothing. One entry only
// changes a comment: if that one is killed, no other result is worth anything.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var c choice
	flag.StringVar(&c.only, "only", "", "take only guards whose name matches this `regexp`")
	flag.IntVar(&c.sample, "sample", 0, "take `N` guards with quick tests at random; 0 takes all")
	flag.Uint64Var(&c.seed, "seed", 1, "what -sample is drawn by")
	timeout := flag.Duration("timeout", 2*time.Minute, "of each test; one that hangs until then is red")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c, *timeout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c choice, timeout time.Duration) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if err := fits(root, all()); err != nil {
		return err
	}
	chosen, err := c.of(all())
	if err != nil {
		return err
	}
	bench, err := newBench(root, timeout)
	if err != nil {
		return err
	}
	defer bench.close()
	r := report{out: os.Stdout}
	chosen = append(chosen, noOp)
	for pkg, guards := range byPackage(chosen) {
		took, err := bench.green(ctx, guards)
		if err != nil {
			return fmt.Errorf("without any patch: %w", err)
		}
		fmt.Printf("%s is green without a patch (%.1f s)\n", pkg, took.Seconds())
	}
	for _, g := range chosen {
		v, err := bench.mutate(ctx, g)
		if err != nil {
			return err
		}
		r.take(g, v)
	}
	return r.end()
}
