package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// memoryLimit is what the garbage collector keeps the process below, in bytes: with rows of
// 100 MB it would otherwise let one of them lie about while the next one is read.
// GOMEMLIMIT gives another limit. A larger row is still read.
const memoryLimit = 160 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	// INT and TERM end the context once; a command then saves its state and returns.
	// A second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
