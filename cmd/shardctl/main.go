package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// INT and TERM end the context once; a command then saves its state and returns.
	// A second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
